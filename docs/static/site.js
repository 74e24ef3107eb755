// The arrows of the sidebar have no name of their own: they open what their link is about.
for (const arrow of document.querySelectorAll("details > summary:not([aria-label])")) {
  const link = arrow.closest("li")?.querySelector("a");
  if (link) arrow.setAttribute("aria-label", `pages of ${link.textContent.trim()}`);
}
