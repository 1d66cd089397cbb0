// The smallest program that uses an installed Lamina:
//
//   cmake -S examples/hello_lamina -B build/hello -DCMAKE_PREFIX_PATH=/usr/local
//   cmake --build build/hello && build/hello/hello_lamina
#include <cstdio>

#include "lamina/status.h"
#include "lamina/version.h"

int main() {
  const lamina::Status status;
  std::printf("Lamina %s says %s\n", lamina::Version(), status.ToString().c_str());
  return 0;
}
