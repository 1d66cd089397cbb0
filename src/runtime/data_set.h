// Recorded runs of a model: folders test_data_set_N with input_0.pb, input_1.pb, ... and output_0.pb, ...
#pragma once

#include <string>
#include <vector>

#include "lamina/session.h"
#include "lamina/status.h"

namespace lamina {

// Folders at or below `root` that hold data sets, sorted: a model's folder, or a tree of many. Links to
// folders are not followed below the root.
std::vector<std::string> FindFoldersWithDataSets(const std::string& root);

// The test_data_set_* folders directly below `folder` (or `folder` itself where it is one), in the order of
// their numbers.
std::vector<std::string> FindDataSets(const std::string& folder);

// Runs the data set's inputs, by position, and compares with its outputs under the tolerances of
// value_compare.h. OK where all agree; the error says what differs: "output 0 'logits': ...". Outputs that
// were not recorded are not compared.
Status CheckDataSet(Session& session, const std::string& data_set);

}  // namespace lamina
