package slab

import "math/bits"

// An [Arena] has slots of these sizes: multiples of 8 bytes up to 256, then eight sizes to each doubling up to 8 KiB.
// A slot is at most 7 bytes or an eighth larger than its content.
const (
	unit        = 8 // bytes; slots begin at multiples of it
	fineClasses = 32
	fineBytes   = fineClasses * unit
	perDoubling = 8
	classes     = fineClasses + 5*perDoubling
	maxSlot     = fineBytes << 5
)

// classFor returns the class of the smallest slots that hold n bytes, 0 < n <= maxSlot.
func classFor(n int) int {
	if n <= fineBytes {
		return (n - 1) / unit
	}
	doubling := bits.Len(uint(n-1)) - bits.Len(fineBytes)
	step := (n-1)>>(doubling+bits.Len(fineBytes/perDoubling)-1) - perDoubling
	return fineClasses + doubling*perDoubling + step
}

// slotSize returns the bytes of a slot of a class.
func slotSize(class int) int {
	if class < fineClasses {
		return (class + 1) * unit
	}
	doubling, step := (class-fineClasses)/perDoubling, (class-fineClasses)%perDoubling
	return (fineBytes / perDoubling << doubling) * (perDoubling + step + 1)
}
