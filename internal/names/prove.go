package names

import "context"

// provedAtOnce is for how many names of an order records are looked for.
const provedAtOnce = 5

// Prove looks for the records of those names of an order that have yet to be
// proved, for callers that cannot ask for it themselves. proved is true when it
// found one: the order may be tried again.
func (s *Service) Prove(ctx context.Context, o Order) (proved bool, err error) {
	var missing []string
	err = s.judge(ctx, s.DB.Reader(), o, func(name string, v verdict) error {
		if v == verdictUnproved && listed(name) && len(missing) < provedAtOnce {
			missing = append(missing, base(name))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, name := range missing {
		c, _, err := s.Begin(ctx, o.UserID, name)
		if err != nil {
			return proved, err
		}
		if c, err = s.Verify(ctx, o.UserID, c.ID); err != nil {
			return proved, err
		}
		proved = proved || c.State == stateHeld
	}
	return proved, nil
}
