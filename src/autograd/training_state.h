// The state of a training: which tensors there are, where they lie, and which of them are updated together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tcc/autograd/optimizer.h"
#include "tcc/rules/builder.h"

namespace tcc::autograd {

/// A parameter and its gradient, a value of the joint graph.
struct Trained {
  Value* weight;
  Value* gradient;
};

/// Parameters that are updated as one tensor, by the names under which graphs read what belongs to them.
struct FlatParameters {
  DType dtype = DType::f32, wide = DType::f32;  ///< of parameters and gradients, and in which they are updated
  bool flat = true;                             ///< false: one parameter in its own shape
  std::vector<Trained> parts;                   ///< in the order of the section
  std::string parameters, gradients;
  std::string master;  ///< empty where dtype is wide
  std::vector<std::string> slots;

  const std::string& current() const { return master.empty() ? parameters : master; }  ///< what is updated
};

class TrainingState {
 public:
  TrainingState(const Graph& joint, const Graph& forward, const OptimizerOptions& options);

  StateLayout layout;
  std::vector<FlatParameters> by_dtype;  ///< all parameters of a dtype each
  std::vector<FlatParameters>
      updated;  ///< those that a step updates apart, and the rest of each dtype; the same as `by_dtype` where none are apart

  /// The value of `graph` that reads a tensor of the state.
  Value* read(Graph& graph, const std::string& name);

 private:
  void add_parameters(std::vector<Trained> trained, const OptimizerOptions& options);
  void convert_into_section(int number, const std::vector<Trained>& parts);
  void add_others(const Graph& joint, const Graph& forward);
  void add_counters(const Graph& joint, const OptimizerOptions& options);
  Tensor first_contents(const StateTensor& tensor);
  const Tensor& contents_of_section(int number);

  std::map<int, Tensor> contents_;  ///< first contents of sections, as bytes: views of them, and the tensors in them, share these
};

/// Elements that a parameter of `count` elements takes in a flat tensor: the next one begins 256-byte aligned.
int64_t padded_count(DType dtype, int64_t count);
/// The outputs of a joint graph that are gradients of parameters.
std::vector<Trained> trained_parameters(const Graph& joint);

}  // namespace tcc::autograd
