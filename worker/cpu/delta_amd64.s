#include "textflag.h"

// One token of Gated DeltaNet for some columns of a head's state; see deltaStep. Two passes over the rows of a tile of
// columns: the first sums k·S and q·S, the second writes αS + k⊗d.

#define DELTAARGS \
	MOVQ s+0(FP), DI       \
	MOVQ k+8(FP), SI       \
	MOVQ q+16(FP), DX      \
	MOVQ v+24(FP), R8      \
	MOVQ o+32(FP), R9      \
	MOVQ n+40(FP), R10     \
	MOVQ stride+48(FP), R11 \
	MOVQ cols+56(FP), CX   \
	SHLQ $2, R11

// READ ends the first pass for one vector of columns at byte AT: M has k·S, Y has q·S. M becomes d, the read goes to o.
#define READ(M, Y, AT, ALPHA, BETA, KQ, T) \
	VMOVUPS AT(R8), T         \
	VFNMADD231PS M, ALPHA, T  \
	VMULPS T, BETA, M         \
	VMULPS Y, ALPHA, Y        \
	VFMADD231PS M, KQ, Y      \
	VMOVUPS Y, AT(R9)

// WRITE is S = αS + k d for one vector of columns at byte AT of a row; K has k of the row.
#define WRITE(D, AT, ALPHA, K, T) \
	VMULPS AT(AX), ALPHA, T \
	VFMADD231PS D, K, T     \
	VMOVUPS T, AT(AX)

// func deltaAVX2(s, k, q, v, o *float32, n, stride, cols int, alpha, beta, kq float32)
// Tiles of 32 columns, then of 8.
TEXT ·deltaAVX2(SB), NOSPLIT, $0-76
	DELTAARGS
	VBROADCASTSS alpha+64(FP), Y13
	VBROADCASTSS beta+68(FP), Y14
	VBROADCASTSS kq+72(FP), Y15
delta32:
	SUBQ $32, CX
	JL   deltaRest
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	MOVQ DI, AX
	XORQ BX, BX
delta32read:
	VBROADCASTSS (SI)(BX*4), Y8
	VBROADCASTSS (DX)(BX*4), Y9
	VMOVUPS (AX), Y10
	VMOVUPS 32(AX), Y11
	VMOVUPS 64(AX), Y12
	VFMADD231PS Y10, Y8, Y0
	VFMADD231PS Y10, Y9, Y4
	VMOVUPS 96(AX), Y10
	VFMADD231PS Y11, Y8, Y1
	VFMADD231PS Y11, Y9, Y5
	VFMADD231PS Y12, Y8, Y2
	VFMADD231PS Y12, Y9, Y6
	VFMADD231PS Y10, Y8, Y3
	VFMADD231PS Y10, Y9, Y7
	ADDQ R11, AX
	INCQ BX
	CMPQ BX, R10
	JNE  delta32read
	READ(Y0, Y4, 0, Y13, Y14, Y15, Y8)
	READ(Y1, Y5, 32, Y13, Y14, Y15, Y8)
	READ(Y2, Y6, 64, Y13, Y14, Y15, Y8)
	READ(Y3, Y7, 96, Y13, Y14, Y15, Y8)
	MOVQ DI, AX
	XORQ BX, BX
delta32write:
	VBROADCASTSS (SI)(BX*4), Y8
	WRITE(Y0, 0, Y13, Y8, Y9)
	WRITE(Y1, 32, Y13, Y8, Y10)
	WRITE(Y2, 64, Y13, Y8, Y11)
	WRITE(Y3, 96, Y13, Y8, Y12)
	ADDQ R11, AX
	INCQ BX
	CMPQ BX, R10
	JNE  delta32write
	ADDQ $128, DI
	ADDQ $128, R8
	ADDQ $128, R9
	JMP  delta32
deltaRest:
	ADDQ $32, CX
delta8:
	SUBQ $8, CX
	JL   deltaEnd
	VXORPS Y0, Y0, Y0
	VXORPS Y4, Y4, Y4
	MOVQ DI, AX
	XORQ BX, BX
delta8read:
	VBROADCASTSS (SI)(BX*4), Y8
	VBROADCASTSS (DX)(BX*4), Y9
	VMOVUPS (AX), Y10
	VFMADD231PS Y10, Y8, Y0
	VFMADD231PS Y10, Y9, Y4
	ADDQ R11, AX
	INCQ BX
	CMPQ BX, R10
	JNE  delta8read
	READ(Y0, Y4, 0, Y13, Y14, Y15, Y8)
	MOVQ DI, AX
	XORQ BX, BX
delta8write:
	VBROADCASTSS (SI)(BX*4), Y8
	WRITE(Y0, 0, Y13, Y8, Y9)
	ADDQ R11, AX
	INCQ BX
	CMPQ BX, R10
	JNE  delta8write
	ADDQ $32, DI
	ADDQ $32, R8
	ADDQ $32, R9
	JMP  delta8
deltaEnd:
	VZEROUPPER
	RET

// func deltaAVX512(s, k, q, v, o *float32, n, stride, cols int, alpha, beta, kq float32)
// One tile of 64 columns, the only number of columns it takes.
TEXT ·deltaAVX512(SB), NOSPLIT, $0-76
	DELTAARGS
	VBROADCASTSS alpha+64(FP), Z13
	VBROADCASTSS beta+68(FP), Z14
	VBROADCASTSS kq+72(FP), Z15
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	MOVQ DI, AX
	XORQ BX, BX
wideRead:
	VBROADCASTSS (SI)(BX*4), Z8
	VBROADCASTSS (DX)(BX*4), Z9
	VMOVUPS (AX), Z10
	VMOVUPS 64(AX), Z11
	VMOVUPS 128(AX), Z12
	VMOVUPS 192(AX), Z16
	VFMADD231PS Z10, Z8, Z0
	VFMADD231PS Z10, Z9, Z4
	VFMADD231PS Z11, Z8, Z1
	VFMADD231PS Z11, Z9, Z5
	VFMADD231PS Z12, Z8, Z2
	VFMADD231PS Z12, Z9, Z6
	VFMADD231PS Z16, Z8, Z3
	VFMADD231PS Z16, Z9, Z7
	ADDQ R11, AX
	INCQ BX
	CMPQ BX, R10
	JNE  wideRead
	READ(Z0, Z4, 0, Z13, Z14, Z15, Z8)
	READ(Z1, Z5, 64, Z13, Z14, Z15, Z8)
	READ(Z2, Z6, 128, Z13, Z14, Z15, Z8)
	READ(Z3, Z7, 192, Z13, Z14, Z15, Z8)
	MOVQ DI, AX
	XORQ BX, BX
wideWrite:
	VBROADCASTSS (SI)(BX*4), Z8
	WRITE(Z0, 0, Z13, Z8, Z9)
	WRITE(Z1, 64, Z13, Z8, Z10)
	WRITE(Z2, 128, Z13, Z8, Z11)
	WRITE(Z3, 192, Z13, Z8, Z12)
	ADDQ R11, AX
	INCQ BX
	CMPQ BX, R10
	JNE  wideWrite
	VZEROUPPER
	RET
