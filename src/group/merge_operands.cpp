// What contractions, windows and scans take in from before them.
//
// Every element of a contraction's operand is read many times, so only what costs nothing to repeat moves in: casts (and views, which are in no unit until the
// end), and the dequantisation of elements of 4 and 8 bits, since they are fewer bytes to read: the schedule of the unit says where it is computed, once for
// each element or wherever it is read. A scan reads each element once: whole chains move in where nothing else reads them.

#include <algorithm>

#include "group/merge.h"

namespace tcc::group {
namespace {

bool is_cast_only(const Cluster& cluster) {
  return cluster.kind == UnitKind::map && std::all_of(cluster.nodes.begin(), cluster.nodes.end(), [](const Node* node) {
           const Node* before = node->operand(0)->producer;
           return (node->op == Op::cast_ || node->op == Op::bitcast_) && !(before && is_arithmetic_on_narrow(*before));
         });
}

/// Whether all that the cluster computes is (x - zero point) * scale, rounded, for x of 4 or 8 bits.
bool is_dequantisation(const Clusters& clusters, const Cluster& cluster) {
  if (cluster.kind != UnitKind::map) return false;
  const Value* main = main_value(cluster.nodes);
  bool reads_narrow = false;
  for (const Node* node : cluster.nodes) {
    if (node->op != Op::cast_ && node->op != Op::sub_ && node->op != Op::mul_) return false;
    for (const Value* operand : node->operands) {
      if (operand->type.count() != main->type.count() || (operand->producer && clusters.is_core(*operand->producer))) continue;
      const bool is_spread =
          operand->producer && (operand->producer->op == Op::broadcast_in_dim_ || operand->producer->op == Op::reshape_ ||
                                operand->producer->op == Op::slice_ || is_create(*operand->producer));
      if (is_spread) continue;
      if (size_bits(operand->type.dtype) > 8 || operand->type.dtype == DType::boolean || reads_narrow) return false;
      reads_narrow = true;
    }
  }
  return reads_narrow;
}

bool read_by_node_alone(const Clusters& clusters, int producer, int own) {
  for (const Node* node : clusters[producer].nodes) {
    for (const Value* result : node->results) {
      if (clusters.escapes(result, producer, own)) return false;
    }
  }
  return true;
}

}  // namespace

void merge_operands(Clusters& clusters, Node& node) {
  for (const Value* operand : node.operands) {
    const std::vector<Value*> sources = clusters.sources(operand);
    for (const Value* source : sources) {
      const int producer = clusters.cluster_of(source->producer), own = clusters.cluster_of(&node);
      const bool widens = node.op == Op::dot_general_ && is_dequantisation(clusters, clusters[producer]);
      const bool fits =
          clusters[own].kind == UnitKind::scan ? clusters[producer].kind == UnitKind::map : widens || is_cast_only(clusters[producer]);
      if (fits && read_by_node_alone(clusters, producer, own)) try_merge(clusters, producer, own);
    }
  }
}

}  // namespace tcc::group
