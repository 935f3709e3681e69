// The functions of the C interface (tcc/runtime/runtime.h) that are about scalars and state.
#pragma once

#include <stdint.h>

#include "tcc/runtime/runtime.h"

namespace tcc::stub {

int describe_scalar(tcc_instance* instance, uint32_t index, tcc_scalar_info* info);
int set_scalar_by_name(tcc_instance* instance, const char* name, double value);
int get_scalar(tcc_instance* instance, const char* name, double* value);
int find_state_index(const char* name, uint32_t* index);
int describe_state(uint32_t index, tcc_state_info* info);
int find_section(const char* name, uint32_t* index);
int section_info(tcc_instance* instance, uint32_t index, tcc_section_info* info);
int read_state(tcc_instance* instance, const char* name, void* data, uint64_t size_bytes);
int write_state(tcc_instance* instance, const char* name, const void* data, uint64_t size_bytes);
int save_state_to(tcc_instance* instance, const char* path);
int load_state_from(tcc_instance* instance, const char* path, uint32_t flags);
int reset_whole_state(tcc_instance* instance);

}  // namespace tcc::stub
