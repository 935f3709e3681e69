// Which results of a graph's units may lie where an operand did.
#include "overwrite.h"
#include "tcc/rules/verify.h"
#include "tools/stages.h"

namespace tcc::stages {

std::string overwrite(const Arguments& arguments) {
  const auto graph = parse_graph(arguments.text, arguments.file, {}, true);
  require_none(verify(*graph, GraphStage::prims), print(*graph));
  std::string text;
  for (const auto& target : {Target::cpu_v3(), Target::cuda_sm80(), Target::cuda_sm90a()}) {
    const plan::Overwrites found = plan::try_overwrites(*graph, target);
    require_none(found.faults, "");
    text += target.kind == Target::Kind::cpu ? "cpu:" : target.name + ":";
    for (const std::string& pair : found.allowed) text += " " + pair;
    text += "\n";
  }
  return text;
}

}  // namespace tcc::stages
