// Passes on the graph (stage 2) and the decomposition to prims (stage 3). Each is one file named after it, takes a graph, leaves it verified.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

class Builder;

/// Emits the gradients that a `gradient` node asks for. src/autograd has it; it is handed in because autograd is a later stage than resolve.
using GradientRule = std::function<std::vector<Value*>(Builder& builder, const Node& node)>;

/// What the command line binds before shapes are resolved.
struct Bindings {
  std::map<std::string, Shape> shapes;     ///< --shapes: input name -> sizes
  std::map<std::string, Tensor> inputs;    ///< --bind: input name -> constant (the input leaves the signature)
  std::map<std::string, int64_t> symbols;  ///< --bind name=value where name is a dimension symbol
};

/// bind-shapes: applies the bindings to the inputs; a symbol fixed by one input is fixed everywhere. Unknown names: Error usage;
/// disagreement with a declared size: Error model.
void bind_shapes(Graph& graph, const Bindings& bindings);
/// resolve: one forward sweep that infers types, evaluates constant nodes (small or shape-like ones; large ones are left to fold-constants)
/// and replaces dynamic ops by prims and composites. Afterwards every type is static. Unbound sizes are one error that lists them all;
/// an op whose sizes depend on data is an error naming the operand. Linear in nodes. A graph without `gradient` needs no rule for it.
void resolve(Graph& graph, Diagnostics& diagnostics, const GradientRule& gradient = nullptr);
/// autocast: contractions in `low`, bf16 or f16, and every other op as the column `precision` of ops.def says; inputs, outputs, weights and state keep their
/// dtypes. Takes a resolved graph. With `keep_parameters` (training) weights of the model have no value that could be looked at.
void autocast(Graph& graph, DType low, bool keep_parameters = false);
/// fold-constants: evaluates nodes whose operands are all weights, when the result is not larger than what it replaces (or is small).
/// With `keep_parameters` (training, --weights=none) weights of the model are not folded into others. `diagnostics` hears of indices that turn out to be
/// constants and lie outside of what they address; null: not looked at.
void fold_constants(Graph& graph, bool keep_parameters = false, Diagnostics* diagnostics = nullptr);
/// canonicalize: local rewrites to the form later stages expect (identities gone, x*1, transpose of transpose, reshape of reshape, cast chains that
/// lose nothing, slice of all, concat of one, ...). Running it twice changes nothing more. With `keep_parameters` float weights of the model are not
/// constants. Drops dead nodes.
void canonicalize(Graph& graph, bool keep_parameters = false);
/// eliminate-common-subexpressions: equal nodes become one, equal constants too. Weights of the model merge only with `merge_model_weights`
/// (inference): parameters that are equal now need not be after a training step.
void eliminate_common_subexpressions(Graph& graph, bool merge_model_weights = false);
void eliminate_dead_code(Graph& graph);  ///< eliminate-dead-code
/// decompose: composites to prims, implicit broadcasts explicit. Reports each node that has a fault.
void decompose(Graph& graph, Diagnostics& diagnostics);
/// multiply-quantized: products of dequantised factors become products of their 8-bit elements. Takes a canonical graph of prims.
void multiply_quantized(Graph& graph, bool keep_parameters = false);
/// join-products: products of one factor by constants of their own become one product, of which each is a slice. Takes a canonical graph of prims.
void join_products(Graph& graph, bool keep_parameters = false);
/// reassociate-products: scales of a product's factors are applied behind it, and sums of its results times weights are taken of what those weights make of the
/// other factor. Takes a canonical graph of prims.
void reassociate_products(Graph& graph, bool keep_parameters = false);
/// recognize-sequences. `keep_parameters`: the model's own may be given other values.
void recognize_sequences(Graph& graph, bool keep_parameters = false);

}  // namespace tcc
