// What an instance keeps between calls: parameters, gradients, optimizer state, statistics, and scalars.
#pragma once

#include "runtime/stub/instance.h"

namespace tcc::stub {

/// Allocates and fills block 0; the scalars take their defaults. Part of create(), after the device is there.
int create_state(tcc_instance* instance);
/// Block 1, zero-filled, if it is not there yet.
int need_gradients(tcc_instance* instance);
/// Its memory alone: a run zeroes it on its own stream, see wants_zero_gradients().
int allocate_gradients(tcc_instance* instance);
/// First contents, and zero gradients.
int reset_state(tcc_instance* instance);

/// Null when there is none of that name; the message then says so.
const program::StateTensor* find_state(const ProgramView& view, const char* name);
/// The f32 copy that the optimizer keeps of a parameter of 16 bits, or null.
const program::StateTensor* find_master(const ProgramView& view, const program::StateTensor& parameter);
/// Between the host and the device, whole tensors. The device must be idle, see wait_for_state().
int write_tensor(tcc_instance* instance, const program::StateTensor& tensor, const void* data);
int read_bytes(tcc_instance* instance, const program::StateTensor& tensor, uint64_t offset, void* data, uint64_t bytes);
/// Writes the master of a 16-bit parameter from the bits of the parameter.
int write_master(tcc_instance* instance, const program::StateTensor& parameter, const program::StateTensor& master, const void* data);
/// The optimizer's tensors as they were at first, but for those that are masters.
int reset_optimizer(tcc_instance* instance);
/// Gradients are zeros, and no micro-batch is under way.
int clear_gradients(tcc_instance* instance);
int wait_for_state(tcc_instance* instance);

int set_scalar(tcc_instance* instance, const char* name, double value);
double scalar_value(const program::Scalar& scalar, uint64_t bits);
/// -1 when there is none of that name; the message then says so.
int find_scalar(const ProgramView& view, const char* name);

// The micro-batches of a step.
/// What step() runs next.
uint32_t next_of_step(const tcc_instance* instance);
/// Whether the gradients have to be zeroed before the function runs: nobody did so far, or it adds to what is there, and is the first to.
bool wants_zero_gradients(const tcc_instance* instance, uint32_t function);
/// The function has run.
void count_micro_batch(tcc_instance* instance, uint32_t function);

}  // namespace tcc::stub
