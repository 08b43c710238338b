package certs

import (
	"runtime"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
)

// RSA keys are made in places of their own, at most on half of the cores; other
// keys, and users who ask for none, do not wait for them.
func TestKeysAreMadeByTurns(t *testing.T) {
	t.Parallel()
	if n := keyPlaces(); n > max(1, runtime.GOMAXPROCS(0)/2) {
		t.Errorf("%d keys are made at once", n)
	}
	s := &Service{generating: jobs.NewTurns(1)}
	leave, _ := s.generating.Enter(t.Context(), 1, "") // a key that takes for ever
	waiting := make(chan error)
	for range 2 {
		go func() {
			_, err := s.generate(t.Context(), 1, AlgorithmRSA2048)
			waiting <- err
		}()
	}
	for _, algorithm := range []KeyAlgorithm{AlgorithmECDSA, AlgorithmECDSAP384, AlgorithmEd25519} {
		if _, err := s.generate(t.Context(), 1, algorithm); err != nil {
			t.Errorf("%s waits for RSA: %v", algorithm, err)
		}
	}
	made := make(chan error)
	go func() {
		_, err := s.generate(t.Context(), 2, AlgorithmRSA2048)
		made <- err
	}()
	leave()
	// Each of the three gets its turn, or is told to come again.
	for _, answers := range []chan error{waiting, waiting, made} {
		if err := <-answers; err != nil && (!fault.Is(err, fault.CodeUnavailable) || fault.As(err).RetryAfter <= 0) {
			t.Error(err)
		}
	}
}
