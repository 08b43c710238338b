package main

import "testing"

func TestSameSerial(t *testing.T) {
	t.Parallel()
	cases := []struct {
		a, b string
		want bool
	}{
		{"1f", "1f", true},
		{"1f", "1F", true},
		{"1f", "00:1F", true},
		{"1f", "1e", false},
		{"1f", "", false},
		{"1f", "31", false},
		{"1f", "0x1f", false},
	}
	for _, c := range cases {
		if got := sameSerial(c.a, c.b); got != c.want {
			t.Errorf("sameSerial(%q, %q) = %t", c.a, c.b, got)
		}
	}
}
