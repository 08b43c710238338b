package installs

// checkOrder requires that depends_on names other items and closes no circle.
func checkOrder(items []Item) error {
	index := make(map[string]int, len(items))
	for i := range items {
		index[items[i].ID] = i
	}
	waits := make([]int, len(items)) // how many it still waits for
	then := make([][]int, len(items))
	for i := range items {
		it := checked{&items[i], i}
		seen := map[string]bool{}
		for _, id := range it.DependsOn {
			before, ok := index[id]
			if !ok || before == i || seen[id] {
				return it.wrong("depends_on", "must hold ids of other items, each once")
			}
			seen[id] = true
			waits[i]++
			then[before] = append(then[before], i)
		}
	}
	var ready []int
	for i, n := range waits {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	for done := 0; done < len(ready); done++ {
		for _, next := range then[ready[done]] {
			if waits[next]--; waits[next] == 0 {
				ready = append(ready, next)
			}
		}
	}
	if len(ready) == len(items) {
		return nil
	}
	for i, n := range waits {
		if n > 0 {
			return (checked{&items[i], i}).wrong("depends_on", "closes a circle; no item could be the first")
		}
	}
	return nil
}
