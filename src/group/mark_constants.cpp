// Says which inputs of units are constants, and which of these no other unit reads.
//
//   unit 0 (%x, @w, @v)   unit 1 (%y, @v, @s)   @s in the state     ->   unit 0: @w, @v constant, @w owned   unit 1: @v constant
//
// What a kernel makes of constants alone, another layout of them for one, is made once. Of weights that the unit owns that is when the library is made, and it
// takes their place there. Another reader would need the bytes as they were, and the library would hold both: what is made of such weights, each instance
// makes for itself. Readers are units, outputs, views, and, where the groups are not alone, other functions and other targets.

#include <unordered_map>

#include "tcc/graph/state.h"
#include "tcc/group/group.h"

namespace tcc::group {

void mark_constants(Groups& groups, const StateLayout* state, bool alone) {
  std::unordered_map<const Value*, int> readers;
  for (const Unit& unit : groups.units) {
    for (const Value* input : unit.inputs) readers[input]++;
  }
  for (const Alias& alias : groups.aliases) readers[alias.base]++;
  for (const Value* result : groups.graph->body.results) readers[result]++;
  for (const StateUpdate& update : groups.graph->state_updates) readers[update.value]++;
  for (Unit& unit : groups.units) {
    unit.constant.clear();
    unit.owned.clear();
    for (const Value* input : unit.inputs) {
      const bool constant = input->kind == Value::Kind::weight && !input->weight->is_state && !(state && state->find(input->weight->name));
      unit.constant.push_back(constant);
      unit.owned.push_back(constant && alone && readers[input] == 1);
    }
  }
}

}  // namespace tcc::group
