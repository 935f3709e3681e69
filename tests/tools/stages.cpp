// stages STAGE [--flag=value ...] FILE: for text tests, what the command line has no way to do.
//
//   interpret   a graph, resolved, by the interpreter: the values of its outputs. --inputs=3,5: the value of all elements of each input (0 where none is given)
//   rounding    a graph: the dtype in which each output was rounded, as `tcc verify` takes it for its tolerances
//   ranges      a graph: what is known of its integer outputs, and what its integer inputs are asked to be
//   units       prims: the groups, after each unit was lowered, run and compared with the interpreter of graphs. --tolerance=1e-5
//   plan        prims: the plan for the CPU, after the plans for both targets were verified, read back, run three times in a row and compared with the
//               interpreter. --state='SECTIONS': what of the weights is state, such as 'parameter f32: w [8, 8], b [8] as all; gradient f32: g [8]' with
//               `all` a flat tensor over w and b. --scalars=lr,seed: inputs that are scalars. --packed-inputs=N, --packed-outputs=N: those from number N on
//               are one tensor. --tolerance=1e-6. --order=1,0: puts the launches in another order, --arena=0: all buffers in one place, for the verifier
//   overwrite   prims: for both targets which results may lie where an operand did, after each of them was tried and changed no bit
//   kernel      a kernel: itself, after it was compiled for the CPU, run in two pieces between guard pages, and compared with the interpreter of loops,
//               on three sets of random operands. --tolerance=1e-5
#include "stages.h"

#include <fstream>
#include <iostream>
#include <sstream>

namespace {

using namespace tcc::stages;

const std::map<std::string, std::string (*)(const Arguments&)> kStages = {
    {"interpret", interpret}, {"rounding", rounding},   {"ranges", ranges}, {"units", units},
    {"plan", plan},           {"overwrite", overwrite}, {"kernel", kernel}};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::string stage;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    if (word.starts_with("--") && equals != std::string::npos) arguments.flags[word.substr(2, equals - 2)] = word.substr(equals + 1);
    else (stage.empty() ? stage : arguments.file) = word;
  }
  std::ifstream file(arguments.file, std::ios::binary);
  if (!kStages.contains(stage) || !file) {
    std::cerr << "usage: stages STAGE [--flag=value ...] FILE\n";
    return 2;
  }
  std::ostringstream text;
  text << file.rdbuf();
  arguments.text = text.str();
  try {
    std::cout << kStages.at(stage)(arguments);
    return 0;
  } catch (const std::exception& error) {
    std::cout << error.what() << "\n";
    return 1;
  }
}
