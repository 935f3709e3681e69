// The forms in which a contraction is a matmul: which of its dims become one row, one column and one sum.
#pragma once

#include <string>
#include <vector>

#include "schedule/chooser.h"
#include "schedule/contraction.h"

namespace tcc::schedule::cuda {

/// Which dims become one, outermost first. `batch`: the other dims of the map.
struct Form {
  std::vector<loop::VarRef> m, n, k, batch;
  int64_t a_width = 1, b_width = 1;  ///< elements of one access of the copies
  bool divides = false;              ///< addresses of results are no sums of the dims
  /// The last dim of the sum is filled up with masked terms to a multiple of so many, so that no step has terms of two of its rows; 0: it is not.
  int64_t filled_to = 0;
  /// Of each dim of m: its iterations in a tile, where the rows of a tile are a box of images; empty: they follow each other.
  std::vector<int64_t> box{};
  /// Of each dim of the sum: its iterations in a step, where a step is a box of both factors; empty: they follow each other.
  std::vector<int64_t> sum_box{};

  int64_t rows() const;  ///< with what fills boxes up
  int64_t columns() const { return iterations(n); }
  int64_t length() const;  ///< of the sum, with what fills it up
};

/// All forms of the contraction of a nest: of each side the dims that follow each other in memory, from some dim on, and the longest alone.
std::vector<Form> forms_of(const Contraction& c, const loop::Loop& nest);

/// The same form with steps of the longest dim of the sum: factors that have the dims of the sum in different orders share no neighbours but along one dim.
Form with_steps_of_one_dim(Form form, int64_t step);

/// Whether `a` is read through a window, or at steps: rows that follow each other are no neighbours in memory, but boxes of them are. Its last axis is summed.
bool is_windowed(const Contraction& c, const Form& form);
/// The same form with boxes of so many rows, the fewest of which hold all; steps of the dim of the sum along which `a` is contiguous.
Form in_boxes(const Contraction& c, Form form, int64_t rows, int64_t step);

/// The forms in which a step of the sum is a box of images, whose channels are the rows of one factor and the columns of the other: gradients of the weights of
/// convolutions. The boxes, of about `step` elements, fill the images.
std::vector<Form> forms_of_image_sums(const Contraction& c, int64_t step);

/// Bytes of the widest access of a copy, which the efficiency of tiles is about.
inline constexpr int64_t kWidestAccess = 16;
/// Whether neighbours along the last of the dims are neighbours in memory.
bool is_contiguous(const Factor& factor, const std::vector<loop::VarRef>& dims);
/// Elements of one access along the last of the dims, which are fused; 1 where neighbours are not neighbours in memory.
int64_t access_width(const Factor& factor, const std::vector<loop::VarRef>& dims);

/// Makes the dims of each side of the form one, and those of the sum. Returns the nest as it is then.
struct Merged {
  std::string m, n, k;
  Contraction contraction;
  bool is_filled = false;  ///< the sum, as Form::filled_to says; boxes may be, too
};
/// `in_order`: the dims of the nest are brought into the order of the form, whatever the results have.
Merged merge(Chooser& chooser, const Contraction& c, const Form& form, bool in_order = false);

/// The dims of the map beside the row and the column.
std::vector<std::string> batch_dims(const Contraction& c, const Merged& names);
/// Cuts a dim into tiles; one that is shorter than a tile is filled up with iterations that are masked.
void split_into_tiles(Chooser& chooser, const std::string& dim, int64_t tile);

/// Whether both factors give zeros where the sum is past its end: parts need not divide it.
bool zeros_past_the_end(const Merged& merged);

/// Cuts the sum into parts, of multiples of `step` terms where the factors allow it. Returns the nest of the parts. `as_merged`: parts are in memory in the order
/// of the dims of the nest, not of the results.
Merged cut_sum(Chooser& chooser, const Merged& whole, int64_t parts, int64_t step, bool as_merged = false);

}  // namespace tcc::schedule::cuda
