// Says which inputs of units are constants of that unit alone.
//
//   unit 0 (%x, @w, @v)   unit 1 (%y, @v, @s)   @s in the state     ->   of unit 0: @w
//
// What a kernel makes of such weights alone, another layout of them for one, is made when the library is, and takes their place there. Another reader would
// need the bytes as they were, and the library would hold both: so a weight that two units read, an output or a view of it, is left alone.

#include <unordered_map>

#include "tcc/graph/state.h"
#include "tcc/group/group.h"

namespace tcc::group {

void mark_constants(Groups& groups, const StateLayout* state) {
  std::unordered_map<const Value*, int> readers;
  for (const Unit& unit : groups.units) {
    for (const Value* input : unit.inputs) readers[input]++;
  }
  for (const Alias& alias : groups.aliases) readers[alias.base]++;
  for (const Value* result : groups.graph->body.results) readers[result]++;
  for (const StateUpdate& update : groups.graph->state_updates) readers[update.value]++;
  for (Unit& unit : groups.units) {
    unit.constant.clear();
    for (const Value* input : unit.inputs) {
      const bool weight = input->kind == Value::Kind::weight && !input->weight->is_state && !(state && state->find(input->weight->name));
      unit.constant.push_back(weight && readers[input] == 1);
    }
  }
}

}  // namespace tcc::group
