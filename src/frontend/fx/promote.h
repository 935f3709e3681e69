// torch's type promotion. Source: the note "Type promotion" of torch's documentation on tensor attributes.
#pragma once

#include <span>

#include "frontend/fx/call.h"

namespace tcc::fx {

/// The common dtype of two tensors: floats over integers over bool, the wider of one kind; f16 with bf16 is f32.
DType promote_types(DType a, DType b);

/// The dtype that an operator computes in: by the tensors with axes; tensors of rank 0, then numbers, count only where they are of a higher
/// kind (bool < integer < float). A float number is f32, an integer one i64.
DType promoted(std::span<const Operand> operands);

/// The same, integers and bool as f32: true division, functions of floats.
DType promoted_to_float(std::span<const Operand> operands);

/// The operand as a tensor of that dtype, rank 0 for a number.
Value* as_tensor(Call& call, const Operand& operand, DType dtype);

}  // namespace tcc::fx
