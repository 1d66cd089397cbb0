#include "support/cuda_emulation/cuda_emulation.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

// Saves the callee's registers on the stack that is left, and takes up the other (System V x86-64).
extern "C" void LaminaSwitchFiber(void** left_stack, void* taken_stack);
asm(R"(
.text
.globl LaminaSwitchFiber
.type LaminaSwitchFiber,@function
LaminaSwitchFiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size LaminaSwitchFiber,.-LaminaSwitchFiber
)");

namespace lamina::cuda::emulation {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kExchangeBytes = kExchangeStride;
constexpr unsigned kLanes = 32;

struct Warp {
  alignas(16) std::byte slots[2][kLanes][kExchangeBytes];
  unsigned generation = 0;
  unsigned arrived = 0;
  unsigned live = 0;
};

struct Fiber {
  void* stack = nullptr;
  Position position;
  bool finished = false;
};

// The block that this thread of the host runs.
struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<std::unique_ptr<std::byte[]>> stacks;
  std::vector<std::byte> shared;
  FunctionRef<void()>* kernel = nullptr;
  void* scheduler_stack = nullptr;
  size_t current = 0;
  unsigned generation = 0;
  unsigned arrived = 0;
  unsigned live = 0;
  bool progress = false;
};

Block& TheBlock() {
  static thread_local Block block;
  return block;
}

void Yield() {
  Block& block = TheBlock();
  LaminaSwitchFiber(&block.fibers[block.current].stack, block.scheduler_stack);
}

void ReleaseIfComplete(unsigned& arrived, unsigned& generation, unsigned live) {
  if (live == 0 || arrived < live) return;
  arrived = 0;
  ++generation;
  TheBlock().progress = true;
}

Warp& TheWarp() {
  Block& block = TheBlock();
  return block.warps[block.current / kLanes];
}

void FiberMain() {
  Block& block = TheBlock();
  (*block.kernel)();
  block.fibers[block.current].finished = true;
  block.progress = true;
  --block.live;
  Warp& warp = TheWarp();
  --warp.live;
  ReleaseIfComplete(block.arrived, block.generation, block.live);
  ReleaseIfComplete(warp.arrived, warp.generation, warp.live);
  Yield();
  std::abort();  // a finished fiber is not taken up again
}

void RunBlock(Block& block) {
  block.generation = block.arrived = 0;
  block.live = static_cast<unsigned>(block.fibers.size());
  for (size_t i = 0; i < block.fibers.size(); ++i) {
    Warp& warp = block.warps[i / kLanes];
    if (i % kLanes == 0) warp.generation = warp.arrived = warp.live = 0;
    ++warp.live;
    // As after a call of FiberMain, which never returns: its address below the place of a return address, and
    // six registers.
    auto* top = reinterpret_cast<void**>(block.stacks[i].get() + kStackBytes) - 1;
    *--top = reinterpret_cast<void*>(&FiberMain);
    for (int reg = 0; reg < 6; ++reg) *--top = nullptr;
    block.fibers[i].stack = top;
    block.fibers[i].finished = false;
  }
  while (block.live > 0) {
    block.progress = false;
    for (block.current = 0; block.current < block.fibers.size(); ++block.current) {
      if (block.fibers[block.current].finished) continue;
      LaminaSwitchFiber(&block.scheduler_stack, block.fibers[block.current].stack);
    }
    if (!block.progress) {
      std::fputs("cuda_emulation: threads wait at a barrier that the others do not reach\n", stderr);
      std::abort();
    }
  }
}

}  // namespace

const Position& Current() {
  Block& block = TheBlock();
  return block.fibers[block.current].position;
}

void SyncThreads() {
  Block& block = TheBlock();
  const unsigned generation = block.generation;
  ++block.arrived;
  ReleaseIfComplete(block.arrived, block.generation, block.live);
  while (block.generation == generation) Yield();
}

const void* Exchange(const void* value, size_t bytes, int source_lane) {
  return ExchangeAll(value, bytes) + static_cast<size_t>(source_lane) * kExchangeStride;
}

const std::byte* ExchangeAll(const void* value, size_t bytes) {
  if (bytes > kExchangeBytes) std::abort();
  Block& block = TheBlock();
  Warp& warp = TheWarp();
  const unsigned generation = warp.generation;
  auto& slots = warp.slots[generation % 2];
  std::memcpy(slots[block.current % kLanes], value, bytes);
  ++warp.arrived;
  ReleaseIfComplete(warp.arrived, warp.generation, warp.live);
  while (warp.generation == generation) Yield();
  return slots[0];
}

void* DynamicSharedMemory() {
  auto address = reinterpret_cast<uintptr_t>(TheBlock().shared.data());
  return reinterpret_cast<void*>((address + 15) / 16 * 16);
}

namespace {

struct Recorder {
  bool is_recording = false;
  std::vector<std::function<void()>> kept;
};

Recorder& TheRecorder() {
  static thread_local Recorder recorder;
  return recorder;
}

}  // namespace

void Do(std::function<void()> work) {
  Recorder& recorder = TheRecorder();
  if (recorder.is_recording) {
    recorder.kept.push_back(std::move(work));
  } else {
    work();
  }
}

void BeginRecording() { TheRecorder().is_recording = true; }

std::vector<std::function<void()>> EndRecording() {
  TheRecorder().is_recording = false;
  return std::exchange(TheRecorder().kept, {});
}

void Run(const dim3& grid, unsigned threads, size_t shared_bytes, FunctionRef<void()> kernel) {
  Block& block = TheBlock();
  while (block.stacks.size() < threads) {
    block.stacks.push_back(std::make_unique_for_overwrite<std::byte[]>(kStackBytes));
  }
  block.fibers.resize(threads);
  block.warps.resize((threads + kLanes - 1) / kLanes);
  block.kernel = &kernel;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block.shared.assign(shared_bytes + 16, std::byte{0xCD});
        for (unsigned i = 0; i < threads; ++i) {
          block.fibers[i].position = {dim3(i, 0, 0), dim3(x, y, z), dim3(threads), grid};
        }
        RunBlock(block);
      }
    }
  }
}

}  // namespace lamina::cuda::emulation
