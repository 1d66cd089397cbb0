// Greedy layouts: items are placed one after another in a fixed order, each at the lowest offset that is free
// in all its sections (first fit). Which order wins depends on the model; graphs of transformers nearly
// always reach the lower bound with the first. (Pisarchyk and Lee, arXiv 2001.03288, describe greedy by
// size.)
#pragma once

#include "memory/packing_problem.h"

namespace lamina {

enum class GreedyOrder {
  kBySize,   // largest first
  kByArea,   // size x sections, largest first
  kByWidth,  // longest lifetime first
  kByStart,  // in execution order
};

// Fixed items are placed first, at their offsets; REQUIRES: they do not overlap (FindFixedOverlap). Items
// that live in every section follow: below all others they cost nothing. Equal keys keep the order of items.
PackingLayout PackGreedily(const PackingProblem& problem, GreedyOrder order);

// The first order whose peak is at most `target` units, else the layout with the lowest peak.
PackingLayout BestGreedyPacking(const PackingProblem& problem, int64_t target);

// Two fixed items that overlap, or {-1, -1}.
std::pair<int32_t, int32_t> FindFixedOverlap(const PackingProblem& problem);

}  // namespace lamina
