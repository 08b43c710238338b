package certs

import (
	"context"
	"crypto"
	"runtime"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
)

// restOfKey is the part of its time for which the place of a key that was made
// stays empty: a flood takes four fifths of the cores that making keys may have.
const restOfKey = 4

// keyPlaces is how many RSA keys are made at once: half of the cores, so that
// the other half serves requests.
func keyPlaces() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// Register gives the area its part in the stop of the server.
func (s *Service) Register(r *jobs.Registry) { s.generating = r.Turns(keyPlaces()) }

// generate makes a key for the user. An RSA key takes a core for up to some
// seconds, so users take turns, and one who finds no place gets
// fault.Unavailable; any other takes less than a signature.
func (s *Service) generate(ctx context.Context, userID int64, algorithm KeyAlgorithm) (crypto.Signer, error) {
	switch algorithm {
	case AlgorithmRSA2048, AlgorithmRSA3072, AlgorithmRSA4096:
	case AlgorithmECDSA, AlgorithmECDSAP384, AlgorithmEd25519:
		return GenerateKey(algorithm)
	}
	leave, away := s.generating.Enter(ctx, userID, "")
	if leave == nil {
		return nil, fault.Unavailable(away, "Many keys are made at this moment; try again.", ctx.Err())
	}
	begin := time.Now()
	defer func() { time.AfterFunc(time.Since(begin)/restOfKey, leave) }()
	return GenerateKey(algorithm)
}
