// How results of a search are ordered: guides, then functions, then operators, then everything else; a page
// whose title has all words that were asked for stands above them. Sphinx reads this name.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score([page, title, , , score]) {
    const [, bonus] = [
      [/^(guide|questions)\/|^(install|index|kinds|gallery|playground)$/, 12],
      [/^reference\/(generated\/|functions)/, 9],
      [/^operators\//, 5],
      [/^reference\//, 4],
      [/^project\//, -8],
      [/./, 0],
    ].find(([pages]) => pages.test(page));
    const asked = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().match(/\S+/g) ?? [];
    const isNamed = asked.every((word) => title.toLowerCase().includes(word));
    const share = isNamed ? asked.join(" ").length / title.length : 0;
    return score + bonus + 25 * share;
  },
};
