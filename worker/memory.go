package worker

// Bounds of the default state budget in bytes.
const (
	leastBudget = 256 << 20
	blindBudget = 1 << 30 // when the size of memory is unknown
)

// defaultBudget is a quarter of the memory that the weights leave: the apps and the page cache of the mapped weights need
// the rest. memory is 0 when unknown.
func defaultBudget(memory, weights int64) int64 {
	if memory <= 0 {
		return blindBudget
	}
	return max((memory-weights)/4, leastBudget)
}
