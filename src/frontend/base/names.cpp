#include "frontend/base/names.h"

namespace tcc {

void give_name(Graph& graph, Value* value, const std::string& name, int first_new) {
  if (value->kind == Value::Kind::result && value->id >= first_new && value->name != name) graph.rename(value, name);
}

std::string UniqueNames::add(const std::string& name) {
  std::string unique = name;
  for (int& next = next_[name]; !taken_.insert(unique).second;) unique = name + "." + std::to_string(++next);
  return unique;
}

}  // namespace tcc
