// Where the elements of an 8x8 simdgroup matrix are: lane l holds (row_of(l), column_of(l)) and the element right of it.
#pragma once

namespace __sim {
inline uint row_of(uint lane) { return (lane >> 2 & 4) | (lane >> 1 & 3); }
inline uint column_of(uint lane) { return (lane >> 1 & 4) | (lane << 1 & 2); }
inline uint lane_of(uint row, uint column) { return (row & 4) << 2 | (row & 3) << 1 | (column & 4) << 1 | (column & 2) >> 1; }
}
