#include "base/host_pages.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lamina {
namespace {

TEST(HostPagesTest, AlignedZeroAndWritable) {
  for (const uint64_t size : {uint64_t{1}, uint64_t{2} << 20, (uint64_t{40} << 20) + 1}) {
    Result<HostPages> pages = HostPages::Allocate(size);
    ASSERT_TRUE(pages.ok()) << pages.status().ToString();
    ASSERT_GE(pages->bytes().size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages->bytes().data()) % (2 << 20), 0u);
    EXPECT_TRUE(std::all_of(pages->bytes().begin(), pages->bytes().end(),
                            [](std::byte value) { return value == std::byte{0}; }));
    pages->bytes().front() = pages->bytes().back() = std::byte{1};
    HostPages moved = std::move(pages).value();
    EXPECT_EQ(moved.bytes().back(), std::byte{1});
  }
}

TEST(HostPagesTest, TooMuchIsAShortage) {
  for (const uint64_t size : {~uint64_t{0}, uint64_t{1} << 47, uint64_t{1} << 46}) {
    EXPECT_EQ(HostPages::Allocate(size).status().code(), StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace lamina
