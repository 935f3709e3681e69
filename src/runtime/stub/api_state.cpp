#include "runtime/stub/api_state.h"

#include <string.h>

#include "runtime/stub/api_structs.h"
#include "runtime/stub/message.h"
#include "runtime/stub/state.h"
#include "runtime/stub/state_file.h"

namespace tcc::stub {

using namespace tcc::program;

int describe_scalar(tcc_instance* instance, uint32_t index, tcc_scalar_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  const Rows<Scalar> scalars = view.scalars();
  if (index >= scalars.count) return fail(TCC_INVALID_ARGUMENT, "scalar %u is asked for, the library has %u", index, scalars.count);
  tcc_scalar_info full = {};
  full.dtype = static_cast<int32_t>(scalars[index].dtype);
  full.name = view.text(scalars[index].name);
  full.value = scalar_value(scalars[index], instance ? instance->state.scalars[index] : scalars[index].default_bits);
  return write_struct(info, full, "scalar_info");
}

int set_scalar_by_name(tcc_instance* instance, const char* name, double value) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  return set_scalar(instance, name, value);
}

int get_scalar(tcc_instance* instance, const char* name, double* value) {
  if (int status = check_instance(instance)) return status;
  if (!value) return fail(TCC_INVALID_ARGUMENT, "the address for the value is NULL");
  const int i = find_scalar(instance->view, name);
  if (i < 0) return TCC_INVALID_ARGUMENT;
  *value = scalar_value(instance->view.scalars()[static_cast<uint32_t>(i)], instance->state.scalars[i]);
  return TCC_OK;
}

int find_state_index(const char* name, uint32_t* index) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  if (!index) return fail(TCC_INVALID_ARGUMENT, "the address for the index is NULL");
  const StateTensor* tensor = find_state(view, name);
  if (!tensor) return TCC_INVALID_ARGUMENT;
  *index = static_cast<uint32_t>(tensor - view.state().data);
  return TCC_OK;
}

int describe_state(uint32_t index, tcc_state_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  const Rows<StateTensor> tensors = view.state();
  if (index >= tensors.count) return fail(TCC_INVALID_ARGUMENT, "state tensor %u is asked for, the library has %u", index, tensors.count);
  const StateTensor& tensor = tensors[index];
  tcc_state_info full = {};
  full.dtype = static_cast<int32_t>(tensor.dtype);
  full.name = view.text(tensor.name);
  full.shape = view.shape(tensor);
  full.rank = static_cast<int32_t>(tensor.shape.count);
  full.role = static_cast<int32_t>(tensor.role);
  full.section = tensor.section;
  full.trained = tensor.trained;
  full.offset = tensor.offset - view.sections()[tensor.section].offset;
  full.size_bytes = tensor.size_bytes;
  return write_struct(info, full, "state_info");
}

int find_section(const char* name, uint32_t* index) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  if (!name || !index) return fail(TCC_INVALID_ARGUMENT, "the name of the section or the address for its index is NULL");
  const Rows<Section> sections = view.sections();
  for (uint32_t i = 0; i < sections.count; i++) {
    if (strcmp(view.text(sections[i].name), name) != 0) continue;
    *index = i;
    return TCC_OK;
  }
  return fail(TCC_INVALID_ARGUMENT, "there is no section `%.200s` among the %u of the library's state", name, sections.count);
}

int section_info(tcc_instance* instance, uint32_t index, tcc_section_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  const Rows<Section> sections = view.sections();
  if (index >= sections.count) return fail(TCC_INVALID_ARGUMENT, "section %u is asked for, the library has %u", index, sections.count);
  const Section& section = sections[index];
  tcc_section_info full = {};
  full.dtype = static_cast<int32_t>(section.dtype);
  full.name = view.text(section.name);
  full.role = static_cast<int32_t>(section.role);
  full.size_bytes = section.size_bytes;
  if (instance) {
    if (int status = check_instance(instance)) return status;
    if (section.role == StateRole::gradient) {
      const InUse use(instance);
      if (use.status() != TCC_OK) return use.status();
      if (int status = need_gradients(instance)) return status;
      instance->state.gradients_shared = true;
    }
    full.data = instance->state.blocks[block_of(section.role)] + section.offset;
  }
  return write_struct(info, full, "section_info");
}

namespace {

int check_state(tcc_instance* instance, const char* name, const void* data, uint64_t size_bytes, const StateTensor** tensor) {
  *tensor = find_state(instance->view, name);
  if (!*tensor) return TCC_INVALID_ARGUMENT;
  if (size_bytes != (*tensor)->size_bytes) {
    return fail(TCC_INVALID_ARGUMENT, "state tensor `%.400s`: %llu bytes are given, expected %llu", name,
                static_cast<unsigned long long>(size_bytes), static_cast<unsigned long long>((*tensor)->size_bytes));
  }
  if (!data && size_bytes > 0) return fail(TCC_INVALID_ARGUMENT, "state tensor `%.400s`: data is NULL", name);
  return wait_for_state(instance);
}

}  // namespace

int read_state(tcc_instance* instance, const char* name, void* data, uint64_t size_bytes) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  const StateTensor* tensor = nullptr;
  if (int status = check_state(instance, name, data, size_bytes, &tensor)) return status;
  return read_bytes(instance, *tensor, 0, data, size_bytes);
}

int write_state(tcc_instance* instance, const char* name, const void* data, uint64_t size_bytes) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  const StateTensor* tensor = nullptr;
  if (int status = check_state(instance, name, data, size_bytes, &tensor)) return status;
  if (int status = write_tensor(instance, *tensor, data)) return status;
  const StateTensor* master = find_master(instance->view, *tensor);
  return master ? write_master(instance, *tensor, *master, data) : TCC_OK;
}

int save_state_to(tcc_instance* instance, const char* path) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  return save_state(instance, path);
}

int load_state_from(tcc_instance* instance, const char* path, uint32_t flags) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  if (flags & ~TCC_LOAD_PARAMETERS)
    return fail(TCC_INVALID_ARGUMENT, "load_state: flags are %#x, known is %#x", flags, TCC_LOAD_PARAMETERS);
  return load_state(instance, path, (flags & TCC_LOAD_PARAMETERS) != 0);
}

int reset_whole_state(tcc_instance* instance) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  return reset_state(instance);
}

}  // namespace tcc::stub
