#include "providers/cpu/rnn/recurrent_cell.h"

#include <algorithm>

namespace lamina {
namespace {

template <typename C>
void Clip(const CellParams& params, C* values, int64_t count) {
  if (params.clip <= 0) return;
  const C bound = params.clip;
  for (int64_t i = 0; i < count; ++i) values[i] = std::clamp(values[i], -bound, bound);
}

}  // namespace

int GateCount(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : (cell == RecurrentCell::kGru ? 3 : 1);
}

template <typename C>
void StepRnn(const CellParams& params, const CellState<C>& state) {
  const int64_t n = params.hidden;
  for (int64_t i = 0; i < n; ++i) state.hidden[i] = state.input[i] + state.recurrent[i];
  Clip(params, state.hidden, n);
  params.f.Apply(state.hidden, n);
}

template <typename C>
void StepLstm(const CellParams& params, const CellState<C>& state) {
  const int64_t n = params.hidden;
  C* in = state.scratch;
  C* out = in + n;
  C* forget = out + n;
  C* candidate = forget + n;
  for (int64_t i = 0; i < 4 * n; ++i) in[i] = state.input[i] + state.recurrent[i];
  if (state.peephole) {
    for (int64_t i = 0; i < n; ++i) {
      in[i] += state.peephole[i] * state.cell[i];
      forget[i] += state.peephole[2 * n + i] * state.cell[i];
    }
  }
  Clip(params, in, n);
  Clip(params, forget, 2 * n);
  params.f.Apply(in, n);
  params.f.Apply(forget, n);
  params.g.Apply(candidate, n);
  if (params.input_forget) {
    for (int64_t i = 0; i < n; ++i) forget[i] = 1 - in[i];
  }
  for (int64_t i = 0; i < n; ++i) state.cell[i] = forget[i] * state.cell[i] + in[i] * candidate[i];
  if (state.peephole) {
    for (int64_t i = 0; i < n; ++i) out[i] += state.peephole[n + i] * state.cell[i];
  }
  Clip(params, out, n);
  params.f.Apply(out, n);
  std::copy_n(state.cell, n, candidate);
  params.h.Apply(candidate, n);
  for (int64_t i = 0; i < n; ++i) state.hidden[i] = out[i] * candidate[i];
}

template <typename C>
void StartGru(const CellParams& params, const CellState<C>& state, C* reset) {
  const int64_t n = params.hidden;
  C* gates = state.scratch;
  for (int64_t i = 0; i < 2 * n; ++i) gates[i] = state.input[i] + state.recurrent[i];
  Clip(params, gates, 2 * n);
  params.f.Apply(gates, 2 * n);
  for (int64_t i = 0; reset && i < n; ++i) reset[i] = gates[n + i] * state.hidden[i];
}

template <typename C>
void FinishGru(const CellParams& params, const CellState<C>& state, const C* candidate_product) {
  const int64_t n = params.hidden;
  const C* update = state.scratch;
  const C* reset = update + n;
  C* candidate = state.scratch + 2 * n;
  const C* input = state.input + 2 * n;
  for (int64_t i = 0; i < n; ++i) {
    candidate[i] = input[i] + (params.linear_before_reset ? reset[i] : C(1)) * candidate_product[i];
  }
  Clip(params, candidate, n);
  params.g.Apply(candidate, n);
  for (int64_t i = 0; i < n; ++i) {
    state.hidden[i] = (1 - update[i]) * candidate[i] + update[i] * state.hidden[i];
  }
}

template void StepRnn(const CellParams&, const CellState<float>&);
template void StepRnn(const CellParams&, const CellState<double>&);
template void StepLstm(const CellParams&, const CellState<float>&);
template void StepLstm(const CellParams&, const CellState<double>&);
template void StartGru(const CellParams&, const CellState<float>&, float*);
template void StartGru(const CellParams&, const CellState<double>&, double*);
template void FinishGru(const CellParams&, const CellState<float>&, const float*);
template void FinishGru(const CellParams&, const CellState<double>&, const double*);

}  // namespace lamina
