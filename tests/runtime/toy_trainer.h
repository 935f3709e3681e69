// A training library made by hand, small enough to be computed in the test as well.
//
//   infer        x: f32[4]                        -> y: f32[4]      y = w x
//   step         x: f32[4], target: f32[4]        -> loss: f32[]    loss = sum (w x - target)^2; then m = m / 2 + gradient, w -= lr m
//   forward      x: f32[4], target: f32[4]        -> loss: f32[], saved: u8[512]    the error w x - target, and at byte 256 x
//   backward     x, target, saved                 ->                grad.w = 2 error x, grad.b = 1/2
//   update                                        ->                m and w as above, optimizer.step += 1
//   accumulate   x: f32[4], target: f32[4]        -> loss: f32[]    gradients += theirs / 2; only with accumulate = 2
//
// State: parameters.f32 | w f32[4] | b f32[70] |, the same for `optimizer.momentum.` and `gradients.f32`; optimizer.step f32[]; running f32[2],
// a statistic that begins as ones; h bf16[3] with its f32 master, which no kernel touches.
#pragma once

#include "runtime/toy_model.h"

namespace tcc::test {

/// `accumulate`: 1 or 2 micro-batches of a step. `cuda`: a second target, for the fake driver alone.
link::LinkInput toy_trainer(const TemporaryFolder& folder, int accumulate = 1, bool cuda = false);

Tensor floats(std::vector<float> values, Shape shape = {4});
std::vector<float> values_of(const Tensor& tensor);

/// The same in a few lines of C++.
struct TrainerReference {
  std::vector<float> w = {1, 2, 3, 4}, m = {0, 0, 0, 0}, gradient = {0, 0, 0, 0};
  float b = 0, m_b = 0, steps = 0, lr = 0.125f;
  /// Adds `scale` times the gradients; gives the loss.
  float accumulate(const std::vector<float>& x, const std::vector<float>& target, float scale = 1);
  float gradient_b = 0;
  /// Applies and zeroes them.
  void update();
};

}  // namespace tcc::test
