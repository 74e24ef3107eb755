// replay.cpp - gives files to a fuzz target once each, for builds without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "random_call.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count);

int main(int count, char** paths) {
  if (ndgather::random_calls::set_is_missing()) return 0;
  for (int p = 1; p < count; ++p) {
    std::ifstream file(paths[p], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%d inputs: nothing found\n", count - 1);
}
