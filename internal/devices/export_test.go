package devices

import "context"

// SigningKey gives tests the key that signs, to forge with.
func (s *Service) SigningKey(ctx context.Context) (kid string, key []byte, err error) {
	keys, err := s.signer.current(ctx)
	if err != nil {
		return "", nil, err
	}
	return keys.newest, keys.byKID[keys.newest], nil
}

// Sweep runs the job's work.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx) }

// What the fuzz targets need.
var (
	ParseRefreshToken = parseRefreshToken
	NewRefreshToken   = newRefreshToken
	ParseUserCode     = parseUserCode
	NewUserCode       = newUserCode
)

// The bounds of the rows of refresh tokens.
const (
	KeptSiblings = keptSiblings
	KeptPairs    = keptPairs
	KeptFamilies = keptFamilies
	AgainPerHour = againPerHour
)

// ListQuery is the text whose plan is read.
const ListQuery = listDevices
