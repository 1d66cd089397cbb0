#include "memory/skyline_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "memory/unit_random.h"

namespace lamina {
namespace {

constexpr size_t kFailedStates = size_t{1} << 18;
constexpr double kMaxWeight = 1e6;

size_t Index(int32_t i) { return static_cast<size_t>(i); }

// The largest size that `owner` has in a section of `other`; they share one.
int64_t HeightOver(const PackingItem& owner, const PackingItem& other) {
  if (owner.contiguous()) return owner.max_size;
  int64_t height = 0;
  for (const PackingSegment& a : owner.segments) {
    for (const PackingSegment& b : other.segments) {
      if (a.begin < b.end && b.begin < a.end) height = std::max(height, a.size);
    }
  }
  return height;
}

bool Covers(const PackingItem& item, int32_t section) {
  return std::any_of(item.segments.begin(), item.segments.end(), [section](const PackingSegment& segment) {
    return segment.begin <= section && section < segment.end;
  });
}

}  // namespace

int64_t CountOverlaps(const PackingProblem& problem, int64_t limit) {
  // An item overlaps those that begin before it and still live, and those that begin with it.
  std::vector<int64_t> live_change(Index(problem.section_count) + 1, 0);
  std::vector<int64_t> starts(Index(problem.section_count) + 1, 0);
  for (const PackingItem& item : problem.items) {
    ++live_change[Index(item.begin())];
    --live_change[Index(item.end())];
    ++starts[Index(item.begin())];
  }
  int64_t pairs = 0;
  int64_t live = 0;
  for (size_t s = 0; s < starts.size() && pairs < limit; ++s) {
    live += live_change[s];
    pairs += starts[s] * live;
  }
  return std::min(pairs, limit);
}

SkylineSearch::SkylineSearch(const PackingProblem& problem) : problem_(problem) {
  const size_t sections = Index(problem.section_count);
  const size_t items = problem.items.size();
  items_of_section_.resize(sections);
  items_starting_at_.resize(sections);
  neighbors_.resize(items);
  total_size_.assign(sections, 0);
  weight_.assign(sections, 1.0);
  failed_states_.assign(kFailedStates, 0);
  for (size_t i = 0; i < items; ++i) {
    const PackingItem& item = problem.items[i];
    const auto id = static_cast<int32_t>(i);
    item_hash_.push_back(MixBits(i + 1));
    if (item.fixed_offset >= 0 || item.alignment > 1) sinkable_ = false;
    if (item.contiguous()) {
      items_starting_at_[Index(item.begin())].push_back(id);
    } else {
      gapped_items_.push_back(id);
    }
    for (const PackingSegment& segment : item.segments) {
      for (int32_t s = segment.begin; s < segment.end; ++s) {
        items_of_section_[Index(s)].push_back(id);
        total_size_[Index(s)] += segment.size;
      }
    }
  }
  std::vector<int32_t> seen(items, -1);
  for (size_t i = 0; i < items; ++i) {
    seen[i] = static_cast<int32_t>(i);
    for (const PackingSegment& segment : problem.items[i].segments) {
      for (int32_t s = segment.begin; s < segment.end; ++s) {
        for (const int32_t other : items_of_section_[Index(s)]) {
          if (std::exchange(seen[Index(other)], static_cast<int32_t>(i)) == static_cast<int32_t>(i)) continue;
          neighbors_[i].push_back(other);
        }
      }
    }
  }
}

SkylineSearch::Outcome SkylineSearch::Run(int64_t capacity, const SearchStrategy& strategy,
                                          int64_t node_limit) {
  Reset(capacity);
  RankItems(strategy);
  if (!SettleFloors(0, problem_.section_count)) return Outcome::kInfeasible;

  const int64_t last_node = nodes_ + node_limit;
  int32_t goal = PushGoals(0, problem_.section_count, -1, -1);
  while (goal >= 0) {
    if (nodes_ >= last_node) return Outcome::kNodeLimit;
    ++nodes_;
    const Goal current = goals_[Index(goal)];
    int32_t choice = current.parent_choice;
    if (OpenChoice(current)) choice = static_cast<int32_t>(choices_.size()) - 1;
    // The nearest choice above with a child left. Choices after it belong to the child that failed: a part of
    // it that was solved before is given up with it, for no other solution of that part could help the one
    // that failed.
    while (true) {
      if (choice < 0) return Outcome::kInfeasible;
      choices_.resize(Index(choice) + 1);
      if (Advance(goal)) break;
      choice = choices_.back().parent_choice;
    }
  }
  return Outcome::kFound;
}

void SkylineSearch::Reset(int64_t capacity) {
  const size_t sections = Index(problem_.section_count);
  const size_t items = problem_.items.size();
  if (capacity > capacity_) std::fill(failed_states_.begin(), failed_states_.end(), 0);
  capacity_ = capacity;
  floor_.assign(sections, 0);
  unplaced_size_ = total_size_;
  unplaced_count_.assign(sections, 0);
  crossing_count_.assign(sections + 1, 0);
  lowest_item_.assign(sections, -1);
  unplaced_hash_.assign(sections, 0);
  candidate_change_.assign(sections + 1, 0);
  gapped_candidates_.assign(sections, 0);
  overhung_.assign(sections, 0);
  lowest_.assign(items, 0);
  placed_.assign(items, 0);
  for (size_t i = 0; i < items; ++i) {
    const PackingItem& item = problem_.items[i];
    if (item.fixed_offset >= 0) lowest_[i] = item.fixed_offset;
    unplaced_hash_[Index(item.begin())] ^= item_hash_[i];
    for (int32_t s = item.begin() + 1; s < item.end(); ++s) ++crossing_count_[Index(s)];
  }
  for (size_t s = 0; s < sections; ++s)
    unplaced_count_[s] = static_cast<int32_t>(items_of_section_[s].size());
  support_ = lowest_;  // on the block's floor, or wherever they are fixed
  trail_.clear();
  goals_.clear();
  choices_.clear();
  candidates_.clear();
  if (*std::max_element(weight_.begin(), weight_.end()) > kMaxWeight) {
    for (double& weight : weight_) weight = weight / 1000 + 1;
  }
}

void SkylineSearch::RankItems(const SearchStrategy& strategy) {
  strategy_ = strategy;
  key_.assign(problem_.items.size(), 0);
  UnitRandom random(strategy.seed);
  for (size_t i = 0; i < problem_.items.size(); ++i) {
    const PackingItem& item = problem_.items[i];
    double width = 0;
    double area = 0;
    int64_t tightest = 0;
    for (const PackingSegment& segment : item.segments) {
      width += segment.end - segment.begin;
      area += static_cast<double>(segment.size) * (segment.end - segment.begin);
      for (int32_t s = segment.begin; s < segment.end; ++s)
        tightest = std::max(tightest, total_size_[Index(s)]);
    }
    const auto size = static_cast<double>(item.max_size);
    const auto bound = static_cast<double>(problem_.lower_bound);
    switch (strategy.key) {
      case SearchStrategy::Key::kWidth:
        key_[i] = width + size / (bound + 1);
        break;
      case SearchStrategy::Key::kTightSection:
        key_[i] = static_cast<double>(tightest) + area / (bound * problem_.section_count + 1);
        break;
      case SearchStrategy::Key::kSize:
        key_[i] = size;
        break;
      case SearchStrategy::Key::kLongArea:
        key_[i] = area * width;
        break;
      case SearchStrategy::Key::kFlatArea:
        key_[i] = std::sqrt(size) * width;
        break;
      case SearchStrategy::Key::kArea:
        key_[i] = area;
        break;
    }
    const double up = 1 + strategy.noise * random.Next();
    const double down = 1 + strategy.noise * random.Next();
    key_[i] = key_[i] * up / down;
  }
}

void SkylineSearch::Set(Field field, int32_t index, int64_t& slot, int64_t value) {
  trail_.push_back({field, index, slot});
  slot = value;
}

void SkylineSearch::CountPlaced(int32_t item, int32_t sign) {
  const PackingItem& it = Item(item);
  unplaced_hash_[Index(it.begin())] ^= item_hash_[Index(item)];
  for (const PackingSegment& segment : it.segments) {
    for (int32_t s = segment.begin; s < segment.end; ++s) {
      unplaced_size_[Index(s)] -= sign * segment.size;
      unplaced_count_[Index(s)] -= sign;
    }
  }
  for (int32_t s = it.begin() + 1; s < it.end(); ++s) crossing_count_[Index(s)] -= sign;
}

void SkylineSearch::UndoTo(size_t trail_mark) {
  while (trail_.size() > trail_mark) {
    const TrailEntry& entry = trail_.back();
    const size_t index = Index(entry.index);
    switch (entry.field) {
      case Field::kFloor:
        floor_[index] = entry.old_value;
        break;
      case Field::kSupport:
        support_[index] = entry.old_value;
        break;
      case Field::kLowest:
        lowest_[index] = entry.old_value;
        break;
      case Field::kPlaced:
        placed_[index] = 0;
        CountPlaced(entry.index, -1);
        break;
    }
    trail_.pop_back();
  }
}

bool SkylineSearch::Place(int32_t item) {
  const PackingItem& it = Item(item);
  const int64_t offset = lowest_[Index(item)];
  if (offset + it.max_size > capacity_) return false;
  trail_.push_back({Field::kPlaced, item, 0});
  placed_[Index(item)] = 1;
  CountPlaced(item, +1);
  int32_t begin = it.begin();
  int32_t end = it.end();
  for (const PackingSegment& segment : it.segments) {
    for (int32_t s = segment.begin; s < segment.end; ++s) {
      Set(Field::kFloor, s, floor_[Index(s)], offset + segment.size);
    }
  }
  for (const int32_t other : neighbors_[Index(item)]) {
    if (placed_[Index(other)]) continue;
    const PackingItem& above = Item(other);
    const int64_t top = AlignUp(offset + HeightOver(it, above), above.alignment);
    if (support_[Index(other)] < top) Set(Field::kSupport, other, support_[Index(other)], top);
    if (lowest_[Index(other)] >= top) continue;
    if (!RaiseLowest(other, top)) return false;
    begin = std::min(begin, above.begin());
    end = std::max(end, above.end());
  }
  return SettleFloors(begin, end);
}

bool SkylineSearch::RaiseFloor(int32_t section, int64_t floor) {
  int32_t begin = section;
  int32_t end = section + 1;
  for (const int32_t item : items_of_section_[Index(section)]) {
    if (placed_[Index(item)]) continue;
    if (!RaiseLowest(item, floor)) return false;
    begin = std::min(begin, Item(item).begin());
    end = std::max(end, Item(item).end());
  }
  return SettleFloors(begin, end);
}

bool SkylineSearch::RaiseLowest(int32_t item, int64_t offset) {
  const PackingItem& it = Item(item);
  int64_t& lowest = lowest_[Index(item)];
  if (lowest >= offset) return true;
  if (it.fixed_offset >= 0) return false;
  Set(Field::kLowest, item, lowest, AlignUp(offset, it.alignment));
  return true;
}

bool SkylineSearch::SettleFloors(int32_t begin, int32_t end) {
  for (int32_t section = begin; section < end; ++section) {
    const size_t s = Index(section);
    if (unplaced_count_[s] == 0) continue;
    const int32_t witness = lowest_item_[s];
    if (witness < 0 || placed_[Index(witness)] || lowest_[Index(witness)] != floor_[s]) {
      int64_t lowest = std::numeric_limits<int64_t>::max();
      for (const int32_t item : items_of_section_[s]) {
        if (placed_[Index(item)] || lowest_[Index(item)] >= lowest) continue;
        lowest = lowest_[Index(item)];
        lowest_item_[s] = item;
        if (lowest == floor_[s]) break;  // none can be lower
      }
      if (lowest > floor_[s]) Set(Field::kFloor, section, floor_[s], lowest);
    }
    if (floor_[s] + unplaced_size_[s] > capacity_) {
      weight_[s] += 1;
      return false;
    }
  }
  return true;
}

int32_t SkylineSearch::PushGoals(int32_t begin, int32_t end, int32_t parent_choice, int32_t next) {
  const size_t first = goals_.size();
  for (int32_t s = begin; s < end;) {
    int32_t part_end = s + 1;
    while (part_end < end && crossing_count_[Index(part_end)] > 0) ++part_end;
    if (part_end > s + 1 || unplaced_count_[Index(s)] > 0)
      goals_.push_back({s, part_end, parent_choice, next});
    s = part_end;
  }
  // Small parts first: they fail fast.
  const auto parts = goals_.begin() + static_cast<std::ptrdiff_t>(first);
  std::stable_sort(parts, goals_.end(),
                   [](const Goal& a, const Goal& b) { return a.end - a.begin < b.end - b.begin; });
  for (size_t i = first; i + 1 < goals_.size(); ++i) goals_[i].next = static_cast<int32_t>(i) + 1;
  return first < goals_.size() ? static_cast<int32_t>(first) : next;
}

bool SkylineSearch::OpenChoice(const Goal& goal) {
  const uint64_t state_hash = HashState(goal.begin, goal.end);
  if (failed_states_[state_hash % failed_states_.size()] == state_hash) return false;
  const Valley valley = SelectValley(goal.begin, goal.end);
  Choice choice;
  choice.begin = goal.begin;
  choice.end = goal.end;
  choice.parent_choice = goal.parent_choice;
  choice.next_goal = goal.next;
  choice.section = valley.section;
  choice.trail_mark = trail_.size();
  choice.goal_mark = goals_.size();
  choice.state_hash = state_hash;
  choice.raised_floor = valley.sunk_item >= 0 ? -1 : NextFloor(valley.section);
  choice.next_candidate = candidates_.size();
  if (valley.sunk_item >= 0) {
    candidates_.push_back(valley.sunk_item);
  } else {
    CollectCandidates(valley, goal.begin, goal.end);
  }
  choice.end_candidate = candidates_.size();
  if (choice.next_candidate == choice.end_candidate && choice.raised_floor < 0) {
    weight_[Index(valley.section)] += 1;
    Remember(state_hash);
    return false;
  }
  choices_.push_back(choice);
  return true;
}

bool SkylineSearch::Advance(int32_t& goal) {
  const auto self = static_cast<int32_t>(choices_.size()) - 1;
  Choice& choice = choices_.back();
  candidates_.resize(choice.end_candidate);
  goals_.resize(choice.goal_mark);
  UndoTo(choice.trail_mark);
  bool moved = false;
  while (!moved && choice.next_candidate < choice.end_candidate) {
    moved = Place(candidates_[choice.next_candidate++]);
    if (!moved) UndoTo(choice.trail_mark);
  }
  if (!moved && choice.raised_floor >= 0) {
    moved = RaiseFloor(choice.section, std::exchange(choice.raised_floor, -1));
    if (!moved) UndoTo(choice.trail_mark);
  }
  if (!moved) {
    Remember(choice.state_hash);
    return false;
  }
  goal = PushGoals(choice.begin, choice.end, self, choice.next_goal);
  return true;
}

uint64_t SkylineSearch::HashState(int32_t begin, int32_t end) const {
  uint64_t hash = MixBits((static_cast<uint64_t>(begin) << 32) + static_cast<uint64_t>(end));
  for (int32_t section = begin; section < end; ++section) {
    const size_t s = Index(section);
    hash = (hash ^ unplaced_hash_[s] ^ (static_cast<uint64_t>(floor_[s]) * 0x9e3779b97f4a7c15u)) *
           0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  return hash | 1;  // never the mark of an empty slot
}

bool SkylineSearch::RestsAt(int32_t item, int64_t floor) const {
  return !placed_[Index(item)] && lowest_[Index(item)] == floor && support_[Index(item)] == floor;
}

bool SkylineSearch::IsFlat(const PackingItem& item, int64_t floor) const {
  for (const PackingSegment& segment : item.segments) {
    for (int32_t s = segment.begin; s < segment.end; ++s) {
      if (floor_[Index(s)] != floor) return false;
    }
  }
  return true;
}

void SkylineSearch::CountGappedCandidates(int32_t begin, int32_t end) {
  std::fill(gapped_candidates_.begin() + begin, gapped_candidates_.begin() + end, 0);
  std::fill(overhung_.begin() + begin, overhung_.begin() + end, 0);
  for (const int32_t item : gapped_items_) {
    const PackingItem& it = Item(item);
    const int64_t floor = lowest_[Index(item)];
    if (it.begin() < begin || it.end() > end || !RestsAt(item, floor)) continue;
    const bool flat = IsFlat(it, floor);
    for (const PackingSegment& segment : it.segments) {
      for (int32_t s = segment.begin; s < segment.end; ++s) {
        if (flat) {
          ++gapped_candidates_[Index(s)];
        } else if (floor_[Index(s)] == floor) {
          overhung_[Index(s)] = 1;
        }
      }
    }
  }
}

SkylineSearch::Valley SkylineSearch::SelectValley(int32_t begin, int32_t end) {
  const bool gapped = !gapped_items_.empty();
  if (gapped) CountGappedCandidates(begin, end);
  const auto is_wall = [&](int32_t s, int64_t floor) {
    return s < begin || s >= end || unplaced_count_[Index(s)] == 0 || floor_[Index(s)] > floor;
  };
  Valley best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (int32_t first = begin; first < end;) {
    if (unplaced_count_[Index(first)] == 0) {
      ++first;
      continue;
    }
    const int64_t floor = floor_[Index(first)];
    int32_t last = first + 1;
    while (last < end && floor_[Index(last)] == floor && unplaced_count_[Index(last)] > 0) ++last;
    const int32_t valley_begin = std::exchange(first, last);
    if (!is_wall(valley_begin - 1, floor) || !is_wall(last, floor)) continue;
    if (gapped && std::find(overhung_.begin() + valley_begin, overhung_.begin() + last, 1) !=
                      overhung_.begin() + last) {
      continue;
    }
    std::fill(candidate_change_.begin() + valley_begin, candidate_change_.begin() + last + 1, 0);
    for (int32_t s = valley_begin; s < last; ++s) {
      for (const int32_t item : items_starting_at_[Index(s)]) {
        const int32_t item_end = Item(item).end();
        if (item_end > last || !RestsAt(item, floor)) continue;
        ++candidate_change_[Index(s)];
        --candidate_change_[Index(item_end)];
        if (sinkable_ && s == begin && item_end == end) return {s, item_end, s, item};
      }
    }
    int32_t candidates = 0;
    for (int32_t section = valley_begin; section < last; ++section) {
      const size_t s = Index(section);
      candidates += candidate_change_[s];
      const int32_t count = candidates + (gapped ? gapped_candidates_[s] : 0);
      const bool may_stay_free = floor + unplaced_size_[s] < capacity_;
      // A free floor is half a choice: it is tried last, and seldom works.
      const double cost = (count + (may_stay_free ? 0.5 : 0.0)) / weight_[s];
      if (cost < best_cost || (cost == best_cost && floor < floor_[Index(best.section)])) {
        best = {valley_begin, last, section, -1};
        best_cost = cost;
      }
    }
  }
  return best;
}

void SkylineSearch::CollectCandidates(const Valley& valley, int32_t begin, int32_t end) {
  const int64_t floor = floor_[Index(valley.section)];
  scored_.clear();
  for (int32_t s = valley.begin; s <= valley.section; ++s) {
    for (const int32_t item : items_starting_at_[Index(s)]) {
      const int32_t item_end = Item(item).end();
      if (item_end <= valley.section || item_end > valley.end || !RestsAt(item, floor)) continue;
      scored_.emplace_back(-Score(item, valley, begin, end), item);
    }
  }
  for (const int32_t item : gapped_items_) {
    if (Covers(Item(item), valley.section) && RestsAt(item, floor) && IsFlat(Item(item), floor)) {
      scored_.emplace_back(-Score(item, valley, begin, end), item);
    }
  }
  std::sort(scored_.begin(), scored_.end());
  for (const auto& [score, item] : scored_) candidates_.push_back(item);
}

double SkylineSearch::Score(int32_t item, const Valley& valley, int32_t begin, int32_t end) const {
  const PackingItem& it = Item(item);
  const bool at_left = it.begin() == valley.begin;
  const bool at_right = it.end() == valley.end;
  double score = key_[Index(item)];
  if (strategy_.edge_bonus > 0) {
    if (at_left) score *= 1 + strategy_.edge_bonus;
    if (at_right) score *= 1 + strategy_.edge_bonus;
  }
  if (strategy_.level_bonus > 0) {
    const int64_t top = floor_[Index(valley.section)] + it.max_size;
    if (at_left && valley.begin > begin && floor_[Index(valley.begin) - 1] == top)
      score *= 1 + strategy_.level_bonus;
    if (at_right && valley.end < end && floor_[Index(valley.end)] == top) score *= 1 + strategy_.level_bonus;
  }
  if (strategy_.slack_weight > 0) {
    int64_t slack = capacity_;
    for (const PackingSegment& segment : it.segments) {
      for (int32_t s = segment.begin; s < segment.end; ++s) {
        slack = std::min(slack, capacity_ - floor_[Index(s)] - unplaced_size_[Index(s)]);
      }
    }
    score /= 1 + strategy_.slack_weight * static_cast<double>(slack) / static_cast<double>(capacity_);
  }
  return score;
}

int64_t SkylineSearch::NextFloor(int32_t section) const {
  const int64_t floor = floor_[Index(section)];
  const int64_t limit = capacity_ - unplaced_size_[Index(section)];
  if (floor >= limit) return -1;
  int64_t next = std::numeric_limits<int64_t>::max();
  for (const int32_t item : items_of_section_[Index(section)]) {
    if (placed_[Index(item)]) continue;
    const PackingItem& it = Item(item);
    if (lowest_[Index(item)] > floor) {
      next = std::min(next, lowest_[Index(item)]);
      continue;
    }
    if (it.fixed_offset >= 0) return -1;
    // Off the floor it rests on an item that is not placed yet and leaves this section's floor free.
    for (const int32_t other : neighbors_[Index(item)]) {
      if (placed_[Index(other)]) continue;
      const PackingItem& below = Item(other);
      const int64_t top = AlignUp(lowest_[Index(other)] + HeightOver(below, it), it.alignment);
      if (top > floor && top < next && !Covers(below, section)) next = top;
    }
  }
  return next <= limit ? next : -1;
}

}  // namespace lamina
