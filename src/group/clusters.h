// Units while they are being formed: clusters of core nodes (all but views and creates), and an order of them that stays topological as they merge.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "group/marks.h"
#include "tcc/group/group.h"

namespace tcc::group {

struct Cluster {
  UnitKind kind = UnitKind::map;
  std::vector<Node*> nodes;  ///< core nodes, in graph order; empty once merged into another
  Node* anchor = nullptr;
  int order = 0;          ///< smaller than that of every cluster that reads from this one
  int recomputed = 0;     ///< cost of the values that are computed again where they are read
  bool fixed = false;     ///< merges with nothing (a concat whose pieces are written in place)
  bool forward = false;   ///< has a node of the forward pass, in a graph that has a backward pass too
  bool backward = false;  ///< has a node of the backward pass (loc.phase "grad" or "update")
};

/// The graph as grouping sees it: core nodes, joined through views.
class Clusters {
 public:
  /// `layouts`: of stored values, where it is known that they have some.
  explicit Clusters(const Graph& graph, const std::vector<Layout>& layouts = {});

  const Graph& graph() const { return graph_; }
  const std::vector<Node*>& core() const { return core_; }
  int position(const Node* node) const { return position_[number_of(node)]; }
  /// Whether the node belongs to one unit: it is no view, no create, and not read narrow.
  bool is_core(const Node& node) const { return cluster_[number_of(&node)] >= 0; }

  int cluster_of(const Node* node) const { return cluster_[number_of(node)]; }
  Cluster& operator[](int cluster) { return clusters_[static_cast<size_t>(cluster)]; }
  const Cluster& operator[](int cluster) const { return clusters_[static_cast<size_t>(cluster)]; }
  int size() const { return static_cast<int>(clusters_.size()); }

  /// The core results that a value reads through views: itself when it is one; none for inputs, weights and creates.
  const std::vector<Value*>& sources(const Value* value) const { return sources_[static_cast<size_t>(value->id)]; }
  /// The core nodes that read a core result through views.
  const std::vector<Node*>& consumers(const Value* value) const { return consumers_[static_cast<size_t>(value->id)]; }
  /// Whether neighbours in memory belong to different results of the reduction: a column of one is not contiguous.
  bool reduces_columns(const Node* reduce) const { return reduces_columns_[number_of(reduce)] != 0; }
  /// Whether there is such a reduction of values with a layout, which without it would be of rows.
  bool has_columns_by_layout() const { return has_columns_by_layout_; }
  /// Whether an output of the graph reads it through views.
  bool read_by_output(const Value* value) const { return read_by_output_[static_cast<size_t>(value->id)] != 0; }
  /// Whether something outside the cluster reads the value.
  bool escapes(const Value* value, int cluster) const;
  /// The same where `a` and `b` count as one cluster.
  bool escapes(const Value* value, int a, int b) const;

  /// Whether merging would leave no cycle; searches a bounded part of the graph and says no beyond it.
  bool can_merge(int a, int b);
  /// Makes one cluster of both, under the number of `a`; can_merge(a, b) must have just said yes.
  void merge(int a, int b);
  /// Gives nodes that nothing but `to` and each other read from one cluster to another that comes after it.
  void move(const std::vector<Node*>& nodes, int from, int to);

  /// What a search has seen, by id of a value; of a node, by that of its first result. For one search at a time.
  struct Seen {
    Marks nodes, after_anchor, after_loop;
  };
  Seen& seen() const { return seen_; }
  /// A number that is the same for nodes that compute the same (structure.h).
  int computation(const Node* node) const { return computation_[number_of(node)]; }
  /// A number that is the same for nodes that compute the same of the same: a node and its copies, which are there so that what they make need not be kept.
  int result_number(const Node* node) const { return result_number_[number_of(node)]; }
  bool has_copies() const { return has_copies_; }
  /// What check_merge.cpp found out about nodes of some structure, by that structure: layers are alike.
  std::unordered_map<std::string, int>& known_costs() const { return known_costs_; }
  static size_t number_of(const Node* node) { return static_cast<size_t>(node->results.front()->id); }

 private:
  std::vector<char> find_narrow_reads() const;
  void number_results();
  void find_columns(const std::vector<Layout>& layouts);
  template <class F> void for_successors(int cluster, F f) const;
  template <class F> void for_predecessors(int cluster, F f) const;

  const Graph& graph_;
  std::vector<Node*> core_;
  std::vector<int> position_, cluster_, computation_, result_number_;  ///< by number_of
  std::vector<Cluster> clusters_;
  std::vector<std::vector<Value*>> sources_;
  std::vector<std::vector<Node*>> consumers_;
  std::vector<char> read_by_output_;
  std::vector<char> reduces_columns_;  ///< by number_of
  bool has_columns_by_layout_ = false, has_copies_ = false;
  mutable Seen seen_;
  mutable std::unordered_map<std::string, int> known_costs_;
  std::vector<int> forward_, backward_;  ///< what the last can_merge found between the two, by order
};

}  // namespace tcc::group
