#include "textflag.h"

// Loops over vectors in AVX2: eight floats at a time, and the rest, n modulo 8, once more under a mask whose other lanes
// read 0 and aren't written.

// ·expTable.
#define LOW  ·expTable+0(SB)
#define HIGH ·expTable+32(SB)
#define LOG2E ·expTable+64(SB)
#define LN2A ·expTable+96(SB)
#define LN2B ·expTable+128(SB)
#define C7   ·expTable+160(SB)
#define C6   ·expTable+192(SB)
#define C5   ·expTable+224(SB)
#define C4   ·expTable+256(SB)
#define C3   ·expTable+288(SB)
#define C2   ·expTable+320(SB)
#define ONE  ·expTable+352(SB)

// EXP is P = e^X with X kept within [-87, 88]: X = n ln 2 + r, |r| <= ln(2)/2, and the Taylor polynomial of degree 7 of
// e^r, whose remainder is below 6e-9, times 2^n by adding n to the exponent. Relative error below 1.5e-7. NaN stays NaN: the
// comparisons give their last operand then. X may be P; N and R are changed.
#define EXP(X, P, N, R) \
	VMOVUPS LOW, N          \
	VMAXPS  X, N, P         \
	VMOVUPS HIGH, N         \
	VMINPS  P, N, P         \
	VMULPS  LOG2E, P, N     \
	VROUNDPS $0, N, N       \
	VFNMADD231PS LN2A, N, P \
	VFNMADD231PS LN2B, N, P \
	VCVTPS2DQ N, N          \
	VPSLLD  $23, N, N       \
	VMOVUPS C7, R           \
	VFMADD213PS C6, P, R    \
	VFMADD213PS C5, P, R    \
	VFMADD213PS C4, P, R    \
	VFMADD213PS C3, P, R    \
	VFMADD213PS C2, P, R    \
	VFMADD213PS ONE, P, R   \
	VFMADD213PS ONE, P, R   \
	VPADDD  N, R, P

// SILU is P = X / (1 + e^-X); X is kept.
#define SILU(X, P, N, R) \
	VXORPS P, P, P     \
	VSUBPS X, P, P     \
	EXP(P, P, N, R)    \
	VADDPS ONE, P, P   \
	VDIVPS P, X, P

// MASK loads the mask of the last COUNT lanes, 1 to 7, into Y15.
#define MASK(COUNT) \
	LEAQ ·tailMask+32(SB), R15 \
	SHLQ $2, COUNT             \
	SUBQ COUNT, R15            \
	VMOVUPS (R15), Y15

// SUM adds the lanes of Y0 into X0.
#define SUM \
	VEXTRACTF128 $1, Y0, X1 \
	VADDPS X1, X0, X0       \
	VMOVHLPS X0, X0, X1     \
	VADDPS X1, X0, X0       \
	VMOVSHDUP X0, X1        \
	VADDSS X1, X0, X0

// func dotAVX2(x, y *float32, n int) float32
// Four vectors of sums by index modulo 32, then the lanes.
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ x+0(FP), SI
	MOVQ y+8(FP), DI
	MOVQ n+16(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
dot32:
	SUBQ $32, CX
	JL   dotRest
	VMOVUPS (SI), Y4
	VMOVUPS 32(SI), Y5
	VMOVUPS 64(SI), Y6
	VMOVUPS 96(SI), Y7
	VFMADD231PS (DI), Y4, Y0
	VFMADD231PS 32(DI), Y5, Y1
	VFMADD231PS 64(DI), Y6, Y2
	VFMADD231PS 96(DI), Y7, Y3
	ADDQ $128, SI
	ADDQ $128, DI
	JMP  dot32
dotRest:
	ADDQ $32, CX
dot8:
	SUBQ $8, CX
	JL   dotTail
	VMOVUPS (SI), Y4
	VFMADD231PS (DI), Y4, Y0
	ADDQ $32, SI
	ADDQ $32, DI
	JMP  dot8
dotTail:
	ADDQ $8, CX
	JZ   dotSum
	MASK(CX)
	VMASKMOVPS (SI), Y15, Y4
	VMASKMOVPS (DI), Y15, Y5
	VFMADD231PS Y5, Y4, Y1
dotSum:
	VADDPS Y1, Y0, Y0
	VADDPS Y3, Y2, Y2
	VADDPS Y2, Y0, Y0
	SUM
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func scaledAVX2(dst, x, gain *float32, n int, a float32)
TEXT ·scaledAVX2(SB), NOSPLIT, $0-36
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ gain+16(FP), DX
	MOVQ n+24(FP), CX
	VBROADCASTSS a+32(FP), Y2
scaled8:
	SUBQ $8, CX
	JL   scaledTail
	VMULPS (SI), Y2, Y0
	VMULPS (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	JMP  scaled8
scaledTail:
	ADDQ $8, CX
	JZ   scaledEnd
	MASK(CX)
	VMASKMOVPS (SI), Y15, Y0
	VMASKMOVPS (DX), Y15, Y1
	VMULPS Y0, Y2, Y0
	VMULPS Y1, Y0, Y0
	VMASKMOVPS Y0, Y15, (DI)
scaledEnd:
	VZEROUPPER
	RET

// func scaleAVX2(x *float32, n int, a float32)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-20
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS a+16(FP), Y2
scale8:
	SUBQ $8, CX
	JL   scaleTail
	VMULPS (DI), Y2, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	JMP  scale8
scaleTail:
	ADDQ $8, CX
	JZ   scaleEnd
	MASK(CX)
	VMASKMOVPS (DI), Y15, Y0
	VMULPS Y0, Y2, Y0
	VMASKMOVPS Y0, Y15, (DI)
scaleEnd:
	VZEROUPPER
	RET

// func gateAVX2(dst, z *float32, n int)
TEXT ·gateAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ z+8(FP), SI
	MOVQ n+16(FP), CX
gate8:
	SUBQ $8, CX
	JL   gateTail
	VMOVUPS (SI), Y0
	SILU(Y0, Y1, Y2, Y3)
	VMULPS (DI), Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	JMP  gate8
gateTail:
	ADDQ $8, CX
	JZ   gateEnd
	MASK(CX)
	VMASKMOVPS (SI), Y15, Y0
	VMASKMOVPS (DI), Y15, Y4
	SILU(Y0, Y1, Y2, Y3)
	VMULPS Y4, Y1, Y1
	VMASKMOVPS Y1, Y15, (DI)
gateEnd:
	VZEROUPPER
	RET

// func sigmoidAVX2(dst, x, gate *float32, n int, a float32)
TEXT ·sigmoidAVX2(SB), NOSPLIT, $0-36
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ gate+16(FP), DX
	MOVQ n+24(FP), CX
	VBROADCASTSS a+32(FP), Y5
sigmoid8:
	SUBQ $8, CX
	JL   sigmoidTail
	VMULPS (SI), Y5, Y4
	VXORPS Y0, Y0, Y0
	VSUBPS (DX), Y0, Y0
	EXP(Y0, Y1, Y2, Y3)
	VADDPS ONE, Y1, Y1
	VDIVPS Y1, Y4, Y4
	VMOVUPS Y4, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	JMP  sigmoid8
sigmoidTail:
	ADDQ $8, CX
	JZ   sigmoidEnd
	MASK(CX)
	VMASKMOVPS (SI), Y15, Y4
	VMASKMOVPS (DX), Y15, Y1
	VMULPS Y4, Y5, Y4
	VXORPS Y0, Y0, Y0
	VSUBPS Y1, Y0, Y0
	EXP(Y0, Y1, Y2, Y3)
	VADDPS ONE, Y1, Y1
	VDIVPS Y1, Y4, Y4
	VMASKMOVPS Y4, Y15, (DI)
sigmoidEnd:
	VZEROUPPER
	RET

// func expSumAVX2(x *float32, n int, top float32) float32
// Eight sums by index modulo 8, then the lanes.
TEXT ·expSumAVX2(SB), NOSPLIT, $0-28
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS top+16(FP), Y5
	VXORPS Y6, Y6, Y6
expSum8:
	SUBQ $8, CX
	JL   expSumTail
	VMOVUPS (DI), Y0
	VSUBPS Y5, Y0, Y0
	EXP(Y0, Y1, Y2, Y3)
	VMOVUPS Y1, (DI)
	VADDPS Y1, Y6, Y6
	ADDQ $32, DI
	JMP  expSum8
expSumTail:
	ADDQ $8, CX
	JZ   expSumEnd
	MASK(CX)
	VMASKMOVPS (DI), Y15, Y0
	VSUBPS Y5, Y0, Y0
	EXP(Y0, Y1, Y2, Y3)
	VMASKMOVPS Y1, Y15, (DI)
	VANDPS Y15, Y1, Y1
	VADDPS Y1, Y6, Y6
expSumEnd:
	VMOVAPS Y6, Y0
	SUM
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func convAVX2(dst, taps, u *float32, n, stride, taken int)
TEXT ·convAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ taps+8(FP), SI
	MOVQ u+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ stride+32(FP), R8
	MOVQ taken+40(FP), R9
	SHLQ $2, R8
conv8:
	SUBQ $8, CX
	JL   convTail
	MOVQ SI, R10
	MOVQ DX, R11
	MOVQ R9, R12
	VXORPS Y0, Y0, Y0
convTap:
	VMOVUPS (R10), Y1
	VFMADD231PS (R11), Y1, Y0
	ADDQ R8, R10
	ADDQ R8, R11
	DECQ R12
	JNZ  convTap
	SILU(Y0, Y1, Y2, Y3)
	VMOVUPS Y1, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	JMP  conv8
convTail:
	ADDQ $8, CX
	JZ   convEnd
	MASK(CX)
	VXORPS Y0, Y0, Y0
convTailTap:
	VMASKMOVPS (SI), Y15, Y1
	VMASKMOVPS (DX), Y15, Y2
	VFMADD231PS Y2, Y1, Y0
	ADDQ R8, SI
	ADDQ R8, DX
	DECQ R9
	JNZ  convTailTap
	SILU(Y0, Y1, Y2, Y3)
	VMASKMOVPS Y1, Y15, (DI)
convEnd:
	VZEROUPPER
	RET
