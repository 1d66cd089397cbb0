// What one step of a recurrent layer does with its gates.
#pragma once

#include <cstdint>

#include "providers/cpu/elementwise/activations.h"

namespace lamina {

enum class RecurrentCell : uint8_t { kRnn, kGru, kLstm };

// Number of gates: rows of W and R are [gates * hidden]. RNN: 1, GRU: z r h, LSTM: i o f c.
int GateCount(RecurrentCell cell);

// Attributes of the cell, of one direction.
struct CellParams {
  RecurrentCell cell = RecurrentCell::kRnn;
  int64_t hidden = 0;
  Activation f;                      // of gates
  Activation g;                      // of candidates
  Activation h;                      // of the LSTM's state
  float clip = 0;                    // 0: none
  bool input_forget = false;         // LSTM: the forget gate is 1 - input gate
  bool linear_before_reset = false;  // GRU: the reset gate scales the product, not the state
};

// Everything of one sequence at one step; arrays of `hidden` elements for each gate. C: float or double.
template <typename C>
struct CellState {
  const C* input = nullptr;      // x W^T + input bias [gates * hidden]
  const C* recurrent = nullptr;  // h R^T + recurrent bias [gates * hidden]
  const C* peephole = nullptr;   // LSTM: [3 * hidden] of i, o, f; null: none
  C* hidden = nullptr;           // [hidden], updated
  C* cell = nullptr;             // LSTM: [hidden], updated
  C* scratch = nullptr;          // [gates * hidden]
};

// One step of a cell. For a GRU that resets the state before the product this is FinishGru's business.
template <typename C>
void StepRnn(const CellParams& params, const CellState<C>& state);
template <typename C>
void StepLstm(const CellParams& params, const CellState<C>& state);
// Gates z and r into scratch [2 * hidden], and `reset` = r * h [hidden] where the product needs it (else
// null).
template <typename C>
void StartGru(const CellParams& params, const CellState<C>& state, C* reset);
// The candidate from `candidate_product` (of h or of the reset state) [hidden], and the step's result.
template <typename C>
void FinishGru(const CellParams& params, const CellState<C>& state, const C* candidate_product);

}  // namespace lamina
