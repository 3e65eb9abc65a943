package sample

import "testing"

func TestDouble(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 2, 7: 14} {
		if got, err := Double(n); got != want || err != nil {
			t.Fatal(n, got, err)
		}
	}
	if got, err := Double(-1); got != 0 || err != errNegative {
		t.Fatal(got, err)
	}
}

func TestPositive(t *testing.T) {
	if !Positive(7) || Positive(-7) {
		t.Fatal("wrong")
	}
}
