// What the parts of the choice for CUDA share.
#pragma once

#include "schedule/chooser.h"

namespace tcc::schedule {

/// All of the dims (neighbours, outermost first) as one, whatever that does to indices.
std::string fuse_everything(Chooser& chooser, const std::vector<std::string>& dims);
/// The iterations of the dims, one per thread or `per_thread` unrolled ones, over as many blocks as it takes.
void spread_over_threads(Chooser& chooser, const std::vector<std::string>& dims, int64_t threads, int64_t per_thread);
/// Elements of one access of up to 16 bytes along a dim that every access inside can have; 1 when there is none.
int64_t vector_width(const std::vector<Access>& accesses, const loop::Dim& dim, bool need_store);

/// A contraction without shared memory.
void choose_cuda_direct(Chooser& chooser, const std::string& first_dim);

}  // namespace tcc::schedule
