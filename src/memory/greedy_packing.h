// Greedy layouts: items are placed one after another in a fixed order, each at the lowest offset that is free
// in all its sections (first fit). Which order wins depends on the model; graphs of transformers nearly
// always reach the lower bound with the first. (Pisarchyk and Lee, arXiv 2001.03288, describe greedy by
// size.) Where no order reaches the target, the best one is repaired: items that end above the target are
// placed earlier in the next pass, and so on for some rounds (squeaky wheel optimization, Joslin and
// Clements, JAIR 10, 1999).
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "memory/packing_problem.h"

namespace lamina {

enum class GreedyOrder {
  kBySize,   // largest first
  kByArea,   // size x sections, largest first
  kByWidth,  // longest lifetime first
  kByStart,  // in execution order
};

// Fixed items are placed first, at their offsets; REQUIRES: they do not overlap (FindFixedOverlap). Items
// that live in every section follow: below all others they cost nothing. Then the others: those with more
// `blame` (by item; empty: none has any) first, then in the order asked for. Equal keys keep the order of
// items.
PackingLayout PackGreedily(const PackingProblem& problem, GreedyOrder order,
                           std::span<const int32_t> blame = {});

// The first layout, of the orders and then of the repairs, whose peak is at most `target` units; else the one
// with the lowest peak.
PackingLayout BestGreedyPacking(const PackingProblem& problem, int64_t target);

// Two fixed items that overlap, or {-1, -1}.
std::pair<int32_t, int32_t> FindFixedOverlap(const PackingProblem& problem);

}  // namespace lamina
