// Finds by trying how a disk is read fastest: past the page cache or through it, and with how many reads at
// a time. A virtual disk wants one, an array of drives many.
#pragma once

#include <cstdint>

namespace lamina {

struct ReadSetting {
  bool direct = false;
  int depth = 1;  // reads at a time
  bool operator==(const ReadSetting&) const = default;
};

// Direct reads are tried with 1, 2, 4, ... at a time for as long as each step is faster than the best before;
// then buffered reads once; the fastest setting stays. Not thread-safe.
class ReadTuner {
 public:
  // A trial takes `trial_bytes`. Without direct reads the steps are made with buffered ones.
  ReadTuner(bool direct_possible, int most_depth, uint64_t trial_bytes);

  ReadSetting current() const { return current_; }
  bool settled() const { return settled_; }

  // `bytes` were read with `setting`, the reading done at `now_ns` (of any clock). Reads that began under
  // another setting than the current one are ignored.
  void Finished(const ReadSetting& setting, uint64_t bytes, int64_t now_ns);
  // Direct reads turned out to be impossible.
  void GiveUpDirect();

 private:
  void StartTrial(const ReadSetting& setting);
  void EndTrial(double bytes_per_s);

  const int most_depth_;
  const uint64_t trial_bytes_;
  bool climbing_direct_;  // the steps are made with direct reads
  ReadSetting current_;
  ReadSetting best_;
  double best_bytes_per_s_ = 0;
  bool settled_ = false;
  uint64_t done_bytes_ = 0;      // in this trial, after its first read
  int64_t trial_start_ns_ = -1;  // when its first read was done
};

}  // namespace lamina
