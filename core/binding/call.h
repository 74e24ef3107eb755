// call.h - one call whose arguments have been viewed: its options, its shapes, its plan, and what stops it.
//
// Where the views come from, and what the result is, knows the class that is derived from it.
#pragma once

#include "arguments.h"
#include "arrays.h"

namespace ndgather {

class Call {
 protected:
  Call(Kind kind, PyObject* const* given) : kind_(kind), given_(given) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Refusal read_options();  // the integers and the mode
  Refusal read_shapes();   // of the inputs, which have been viewed
  const Shape& result_shape(Shape& whole) const;  // of a scatter, put into `whole`
  // Whether a caller's `out`, which has been viewed, shares memory with an input that is still read when it is written.
  Refusal check_overlaps();
  Refusal carry_out();

  Refusal first_bad();
  PyObject* refused(const Refusal& refusal) const;

  const Kind kind_;
  PyObject* const* const given_;
  Plan plan_;
  Size axis_ = 0, batch_dims_ = 0;
  Reduction reduction_ = Reduction::none;
  ElementType type_ = ElementType::opaque;
  Shape slices_;
  View data_, indices_, updates_, out_;
  bool callers_out_ = false;

 private:
  Refusal gather();
  Refusal scatter();
  Refusal check_all();
  Refusal check_first();
  PyObject* bad_entry() const;

  bool in_place_ = false;  // a scatter into `data` itself
  Outside bad_;
};

}  // namespace ndgather
