// Package msl is the front end of the simulator for the Metal Shading Language, version 3.1: it refuses what Apple's
// compiler refuses and clang, given C++ for OpenCL, can't see, and rewrites the rest to C++ for OpenCL.
//
// It reads tokens, not types: what depends on types is left to clang, the flags it is given and the header metal_stdlib
// of package sim. It runs no compiler. It must not import package sim or anything else of ours but package metal.
package msl
