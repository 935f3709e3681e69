// What is mutated: small models of all families of ops, and what tcc makes of them.
#pragma once

#include <string>
#include <vector>

namespace tcc::attack {

struct Text {
  std::string form;    ///< graph, prims, loop, kernel
  std::string target;  ///< cpu, cuda; empty for graphs
  std::string text;
  std::string weights_name, weights;  ///< the file that it names in its first line
};

/// A unit and the list of primitives that was chosen for it.
struct Scheduled {
  std::string target;
  std::string unit;
  std::vector<std::string> primitives;
};

struct Seeds {
  std::vector<std::string> models;  ///< bytes of .onnx files
  std::vector<Text> texts;
  std::vector<Scheduled> schedules;
  // A library of one input, one that trains, and files for them.
  std::string library, training_library;
  std::string npy, npz, tensor_file, state;
  std::string library_output;  ///< what `tcc run` prints of the library, whole, on the inputs that attack_library() asks for
};

/// Makes all seeds in `folder` with the program.
Seeds make_seeds(const std::string& tcc, const std::string& folder);

}  // namespace tcc::attack
