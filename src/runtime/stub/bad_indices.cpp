#include "runtime/stub/bad_indices.h"

#include "runtime/stub/message.h"

namespace tcc::stub {

using namespace tcc::program;

int create_bad_indices(tcc_instance* instance) {
  uint32_t count = 0;
  for (uint32_t f = 0; f < instance->view.functions().count; f++) {
    BoundFunction& function = instance->functions[f];
    function.first_check = count;
    count += function.code->checks.count;
  }
  instance->num_checks = count;
  if (count == 0 || instance->device == TCC_DEVICE_CUDA) return TCC_OK;
  instance->bad_indices = instance->bad_indices_of_device = instance->memory.allocate_array<int64_t>(count);
  return instance->bad_indices ? TCC_OK : fail(TCC_OUT_OF_MEMORY, "no memory for an instance");
}

int report_bad_index(tcc_instance* instance) {
  if (instance->ignore_bad_indices || !instance->bad_indices) return TCC_OK;
  const ProgramView& view = instance->view;
  const Check* found = nullptr;
  int64_t index = 0;
  for (uint32_t f = 0; f < view.functions().count; f++) {
    const BoundFunction& function = instance->functions[f];
    const Rows<Check> checks = view.rows<Check>(function.code->checks);
    for (uint32_t c = 0; c < checks.count; c++) {
      int64_t* slot = &instance->bad_indices[function.first_check + c];
      const int64_t value = __atomic_load_n(slot, __ATOMIC_RELAXED);
      if (value == 0) continue;
      if (!found) {
        found = &checks[c];
        index = value;
      }
      __atomic_store_n(slot, 0, __ATOMIC_RELAXED);
    }
  }
  if (!found) return TCC_OK;
  if (!*view.text(found->place)) return fail(TCC_INVALID_ARGUMENT, "%.300s", view.text(found->index));
  return fail(TCC_INDEX_OUT_OF_RANGE, "%.300s %lld at %.300s, valid are %lld to %lld", view.text(found->index),
              static_cast<long long>(index), view.text(found->place), static_cast<long long>(found->low),
              static_cast<long long>(found->high));
}

}  // namespace tcc::stub
