package feed

import "testing"

// Long polls that wait are bounded, those of one device more so.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	hs := newHeads(false, "10")
	sit := func(device int64) bool { return hs.sit(hs.use(device)) }
	for range maxOfDevice {
		if !sit(1) {
			t.Fatal("no place for a device's own")
		}
	}
	if sit(1) {
		t.Error("a device has more than its share")
	}
	device := int64(2)
	for n := maxOfDevice; n < maxWaiting; n++ {
		if !sit(device) {
			t.Fatalf("no place after %d", n)
		}
		device++
	}
	if sit(device) {
		t.Error("more wait than may")
	}
	hs.stand(hs.use(2))
	if !sit(device) {
		t.Error("no place where one was left")
	}
}
