package process

import (
	"os"
	"testing"
)

func TestAStatusIsReadWhateverTheNameOfTheProcess(t *testing.T) {
	got, err := parseStatus("42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 1")
	if err != nil {
		t.Fatal(err)
	}
	if want := (status{name: "a) b (c", state: 'S', parent: 7, started: 98765}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAReusedProcessIdIsAnotherProcess(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Error("this process should be alive")
	}
	self.Started++
	if self.Alive() {
		t.Error("a process with another start time should not be taken for this one")
	}
}
