// The values of a kernel's built-in arguments: [[x]] of type T becomes __sim_x<T>().
#pragma once

namespace __sim {
template <class T> struct from_uint3 { static T of(uint3 v) { return (T)v.x; } };
template <class E> struct from_uint3<E __attribute__((ext_vector_type(2)))> {
  typedef E V __attribute__((ext_vector_type(2)));
  static V of(uint3 v) { return V{(E)v.x, (E)v.y}; }
};
template <class E> struct from_uint3<E __attribute__((ext_vector_type(3)))> {
  typedef E V __attribute__((ext_vector_type(3)));
  static V of(uint3 v) { return V{(E)v.x, (E)v.y, (E)v.z}; }
};
inline uint size() { return threads().x * threads().y * threads().z; }
}

template <class T> inline T __sim_threadgroup_position_in_grid() { return __sim::from_uint3<T>::of(__sim::group()); }
template <class T> inline T __sim_threadgroups_per_grid() { return __sim::from_uint3<T>::of(__sim::groups()); }
template <class T> inline T __sim_threads_per_threadgroup() { return __sim::from_uint3<T>::of(__sim::threads()); }
template <class T> inline T __sim_dispatch_threads_per_threadgroup() { return __sim::from_uint3<T>::of(__sim::threads()); }
template <class T> inline T __sim_thread_position_in_threadgroup() { return __sim::from_uint3<T>::of(__sim::position()); }
template <class T> inline T __sim_thread_position_in_grid() {
  return __sim::from_uint3<T>::of(__sim::group() * __sim::threads() + __sim::position());
}
template <class T> inline T __sim_threads_per_grid() { return __sim::from_uint3<T>::of(__sim::groups() * __sim::threads()); }
template <class T> inline T __sim_thread_index_in_threadgroup() { return (T)__sim::index(); }
template <class T> inline T __sim_simdgroup_index_in_threadgroup() { return (T)(__sim::index() / 32); }
template <class T> inline T __sim_thread_index_in_simdgroup() { return (T)__sim::lane(); }
template <class T> inline T __sim_threads_per_simdgroup() { return (T)32; }
template <class T> inline T __sim_simdgroups_per_threadgroup() { return (T)((__sim::size() + 31) / 32); }
template <class T> inline T __sim_dispatch_simdgroups_per_threadgroup() { return (T)((__sim::size() + 31) / 32); }
template <class T> inline T __sim_quadgroup_index_in_threadgroup() { return (T)(__sim::index() / 4); }
template <class T> inline T __sim_thread_index_in_quadgroup() { return (T)(__sim::index() % 4); }
template <class T> inline T __sim_quadgroups_per_threadgroup() { return (T)((__sim::size() + 3) / 4); }

// Dynamic threadgroup memory [[threadgroup(n)]]: kernels compile with it, and the simulator's drivers refuse to run them.
threadgroup void* __sim_threadgroup(int index);
