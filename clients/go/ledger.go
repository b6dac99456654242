package client

import "fmt"

// budget is the most that is spent in each period, in billionths of ε, and the period in milliseconds.
type budget struct{ amount, every int64 }

// account is the last period of a budget, and what was spent in it.
type account struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	Spent int64 `json:"spent"`
}

// slot is the part of each period in which a device reports, and the number of parts.
type slot struct {
	Slot  int64 `json:"slot"`
	Slots int64 `json:"slots"`
}

// ledger is what a device keeps of its spending.
type ledger struct {
	Total       *account           `json:"total"`
	Collections map[string]account `json:"collections"`
	Slots       map[string]slot    `json:"slots"`
}

func emptyLedger() ledger {
	return ledger{Collections: map[string]account{}, Slots: map[string]slot{}}
}

// drawSlot draws the slot of a collection the first time, and when the number of slots has changed.
func (l *ledger) drawSlot(m *Manifest, draws *drawer) (drawn bool) {
	if m.slots == 1 || l.Slots[m.collection].Slots == m.slots {
		return false
	}
	l.Slots[m.collection] = slot{draws.below(m.slots), m.slots}
	return true
}

// spend takes the cost of the reports from both accounts, or changes nothing.
func (l *ledger) spend(m *Manifest, now, reports int64) error {
	if now < 0 || now > most53 {
		return fmt.Errorf("%w: the clock shows no time of use", ErrBudget)
	}
	if m.slots > 1 && now%m.budget.every*m.slots/m.budget.every != l.Slots[m.collection].Slot {
		return fmt.Errorf("%w: this is not the device's slot", ErrBudget)
	}
	var own *account
	if kept, there := l.Collections[m.collection]; there {
		own = &kept
	}
	spent, err := m.budget.spend(own, m.cost, now, reports)
	if err != nil {
		return err
	}
	total, err := m.total.spend(l.Total, m.cost, now, reports)
	if err != nil {
		return err
	}
	if spent != nil {
		l.Collections[m.collection] = *spent
	}
	l.Total = total
	return nil
}

// spend returns the account after the reports, as a new value. No budget leaves it as it is.
func (b *budget) spend(kept *account, cost, now, reports int64) (*account, error) {
	if b == nil {
		return kept, nil
	}
	period := now / b.every * b.every
	next := account{Start: period, End: period + b.every}
	switch {
	case kept == nil:
	case now < kept.Start:
		return nil, fmt.Errorf("%w: the clock was set back", ErrBudget)
	case now < kept.End:
		next = *kept
	default:
		next.Start = max(period, kept.End)
	}
	if left := b.amount - next.Spent; left < 0 || left/cost < reports {
		return nil, fmt.Errorf("%w: it is spent until the end of the period", ErrBudget)
	}
	next.Spent += cost * reports
	return &next, nil
}
