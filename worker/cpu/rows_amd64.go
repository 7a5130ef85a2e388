package cpu

// Loops of rows_avx512_amd64.s.

//go:noescape
func gemvNibblesAVX512(args *gemvArgs)

//go:noescape
func gemvBytesAVX512(args *gemvArgs)

//go:noescape
func gemvBF16AVX512(args *gemvArgs)

//go:noescape
func gemvF16AVX512(args *gemvArgs)

//go:noescape
func gemvF32AVX512(args *gemvArgs)

//go:noescape
func unpackNibblesAVX512(args *unpackArgs)

//go:noescape
func unpackBytesAVX512(args *unpackArgs)

//go:noescape
func unpackBF16AVX512(args *unpackArgs)

//go:noescape
func unpackF16AVX512(args *unpackArgs)

//go:noescape
func unpackF32AVX512(args *unpackArgs)

//go:noescape
func mulTileAVX512(args *tileArgs)

//go:noescape
func widenBF16AVX512(dst *float32, src *byte, n int)

func avx512Rows() rowKernels {
	return (&vectorRows{
		gemv:   [formats]func(*gemvArgs){gemvNibblesAVX512, gemvBytesAVX512, gemvBF16AVX512, gemvF16AVX512, gemvF32AVX512},
		unpack: [formats]func(*unpackArgs){unpackNibblesAVX512, unpackBytesAVX512, unpackBF16AVX512, unpackF16AVX512, unpackF32AVX512},
		mul:    mulTileAVX512, widen: widenBF16AVX512, part: 1024, tiled: 3,
	}).rows()
}

// Loops of rows_avx2_amd64.s. There are none for fp16, since AVX2 doesn't promise its conversion.

//go:noescape
func gemvNibblesAVX2(args *gemvArgs)

//go:noescape
func gemvBytesAVX2(args *gemvArgs)

//go:noescape
func gemvBF16AVX2(args *gemvArgs)

//go:noescape
func gemvF32AVX2(args *gemvArgs)

//go:noescape
func unpackNibblesAVX2(args *unpackArgs)

//go:noescape
func unpackBytesAVX2(args *unpackArgs)

//go:noescape
func unpackBF16AVX2(args *unpackArgs)

//go:noescape
func unpackF32AVX2(args *unpackArgs)

//go:noescape
func mulTileAVX2(args *tileArgs)

//go:noescape
func widenBF16AVX2(dst *float32, src *byte, n int)

func avx2Rows() rowKernels {
	return (&vectorRows{
		gemv:   [formats]func(*gemvArgs){nibbles: gemvNibblesAVX2, bytes8: gemvBytesAVX2, bfloats: gemvBF16AVX2, floats: gemvF32AVX2},
		unpack: [formats]func(*unpackArgs){nibbles: unpackNibblesAVX2, bytes8: unpackBytesAVX2, bfloats: unpackBF16AVX2, floats: unpackF32AVX2},
		mul:    mulTileAVX2, widen: widenBF16AVX2, part: 512, tiled: 3,
	}).rows()
}
