// Branch and bound over the skyline of a layout: is there a layout within a capacity?
//
// Items are placed from the bottom up. Each section s has a floor: every unplaced item of s will lie at or
// above it. A state is cut when floor + unplaced bytes of some section exceed the capacity. An item's lowest
// offset is the largest floor of its sections; a section's floor is in turn raised to the lowest of its
// items' lowest offsets.
//
// Branching: a valley is a run of sections with equal floors between higher ones. In some section of a valley
// either one of the items that fit into the valley lies on its floor, or none does and the floor rises to the
// next offset at which one of its items could rest. The section with the fewest choices is taken,
// weighted by how often sections were the reason for a cut (as constraint solvers weigh variables).
//
// What keeps the tree small:
// - every item rests on the block's floor or on another item: any layout can be pushed down to such a one;
// - parts that no unplaced item links any more are solved apart, and the failure of one fails all;
// - failed states are remembered by a hash of unplaced items and floors, whatever order led to them;
// - an item that covers a whole flat part goes to its floor without a choice.
// The first idea and the use of section bounds are those of MiniMalloc (Moffitt, ASPLOS 2023).
//
// A run is a pure function of the problem, its arguments and the runs before it: it counts nodes, never time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/packing_problem.h"

namespace lamina {

// In which order the items that could lie on a floor are tried. Factors other than the key vary a search
// so that repeated runs explore different parts of the tree.
struct SearchStrategy {
  enum class Key { kWidth, kTightSection, kSize, kLongArea, kFlatArea, kArea };
  Key key = Key::kWidth;    // largest first
  double noise = 0;         // random factor on each item's key, up to 1 + noise either way
  double edge_bonus = 0;    // factor 1 + bonus for each end of the item that lies at an end of its valley
  double level_bonus = 0;   // factor 1 + bonus for each side where its top meets the neighbouring floor
  double slack_weight = 0;  // prefers items of sections with little room left
  uint64_t seed = 1;
};

class SkylineSearch {
 public:
  enum class Outcome { kFound, kInfeasible, kNodeLimit };

  // Memory grows with the pairs of items that are live together; CountOverlaps tells before.
  explicit SkylineSearch(const PackingProblem& problem);

  // kFound: layout() holds offsets whose peak is at most `capacity` (units). kInfeasible: the tree was
  // exhausted (up to hash collisions of 64 bits). kNodeLimit: neither was known after `node_limit` nodes.
  Outcome Run(int64_t capacity, const SearchStrategy& strategy, int64_t node_limit);

  const PackingLayout& layout() const { return lowest_; }
  int64_t nodes() const { return nodes_; }  // of all runs

 private:
  // Part of the problem still to be solved: sections [begin, end). Goals form a linked stack.
  struct Goal {
    int32_t begin;
    int32_t end;
    int32_t parent_choice;  // whose child this part is: a part's failure fails that child
    int32_t next;           // index of the next goal, -1: none
  };
  // A node of the tree: what may lie on the floor of one section.
  struct Choice {
    int32_t begin;
    int32_t end;
    int32_t parent_choice;
    int32_t next_goal;  // what remains once this part is solved
    int32_t section;
    size_t trail_mark;
    size_t next_candidate;  // in candidates_, up to end_candidate
    size_t end_candidate;
    size_t goal_mark;
    int64_t raised_floor;  // if nothing lies on the floor; -1: not possible
    uint64_t state_hash;
  };
  enum class Field : int32_t { kFloor, kSupport, kLowest, kPlaced };
  struct TrailEntry {
    Field field;
    int32_t index;
    int64_t old_value;
  };
  struct Valley {
    int32_t begin = -1;
    int32_t end = -1;
    int32_t section = -1;    // the one to branch on
    int32_t sunk_item = -1;  // covers the whole part, which is flat: it may lie on its floor without a choice
  };

  void Reset(int64_t capacity);
  void RankItems(const SearchStrategy& strategy);

  // Changes of the state. Each returns false where it cannot lead to a layout within the capacity any more.
  bool Place(int32_t item);
  bool RaiseFloor(int32_t section, int64_t floor);
  bool RaiseLowest(int32_t item, int64_t offset);
  bool SettleFloors(int32_t begin, int32_t end);
  void Set(Field field, int32_t index, int64_t& slot, int64_t value);
  void CountPlaced(int32_t item, int32_t sign);
  void UndoTo(size_t trail_mark);

  // Pushes the independent parts of [begin, end) as goals in front of `next`; returns the first.
  int32_t PushGoals(int32_t begin, int32_t end, int32_t parent_choice, int32_t next);
  // Pushes the choice of a goal; false where its state has failed before or has no child.
  bool OpenChoice(const Goal& goal);
  // Moves the top choice to its next viable child and sets `goal` to what that leaves to do; false: none is
  // left.
  bool Advance(int32_t& goal);
  void Remember(uint64_t failed_state) {
    failed_states_[failed_state % failed_states_.size()] = failed_state;
  }

  uint64_t HashState(int32_t begin, int32_t end) const;
  Valley SelectValley(int32_t begin, int32_t end);
  void CountGappedCandidates(int32_t begin, int32_t end);
  void CollectCandidates(const Valley& valley, int32_t begin, int32_t end);
  // Whether the item may lie on its floor, given that all its sections have the floor `floor`.
  bool RestsAt(int32_t item, int64_t floor) const;
  bool IsFlat(const PackingItem& item, int64_t floor) const;
  // The floor of a section whose floor stays free; -1: something has to lie there.
  int64_t NextFloor(int32_t section) const;
  double Score(int32_t item, const Valley& valley, int32_t begin, int32_t end) const;
  const PackingItem& Item(int32_t item) const { return problem_.items[static_cast<size_t>(item)]; }

  const PackingProblem& problem_;
  int64_t capacity_ = 0;
  int64_t nodes_ = 0;
  bool sinkable_ = true;  // no fixed offsets, no padding: items that cover a flat part may sink to its floor

  // Fixed by the problem.
  std::vector<std::vector<int32_t>> items_of_section_;
  std::vector<std::vector<int32_t>> items_starting_at_;  // contiguous ones
  std::vector<int32_t> gapped_items_;
  std::vector<std::vector<int32_t>> neighbors_;  // items that share a section
  std::vector<int64_t> total_size_;              // per section
  std::vector<uint64_t> item_hash_;

  // The state. Per section:
  std::vector<int64_t> floor_;
  std::vector<int64_t> unplaced_size_;
  std::vector<int32_t> unplaced_count_;
  std::vector<int32_t> crossing_count_;  // unplaced items across the boundary to the section before
  std::vector<int32_t> lowest_item_;     // an unplaced item whose lowest offset is the floor, if still valid
  std::vector<uint64_t> unplaced_hash_;  // of the items that begin here
  std::vector<double> weight_;           // kept between runs
  // Per item:
  std::vector<int64_t> lowest_;   // lowest offset; its offset once placed
  std::vector<int64_t> support_;  // highest top of a placed item below, aligned: where it rests
  std::vector<char> placed_;
  std::vector<double> key_;

  std::vector<TrailEntry> trail_;
  std::vector<Goal> goals_;
  std::vector<Choice> choices_;
  std::vector<int32_t> candidates_;
  std::vector<uint64_t> failed_states_;  // direct-mapped table, 0: empty
  SearchStrategy strategy_;

  // Scratch of SelectValley and CollectCandidates. Per section: contiguous candidates as differences,
  // candidates with gaps, and whether an item with gaps would lie on this floor but hang over a lower one.
  std::vector<int32_t> candidate_change_;
  std::vector<int32_t> gapped_candidates_;
  std::vector<char> overhung_;
  std::vector<std::pair<double, int32_t>> scored_;
};

// Pairs of items that share a section, counted up to `limit`.
int64_t CountOverlaps(const PackingProblem& problem, int64_t limit);

}  // namespace lamina
