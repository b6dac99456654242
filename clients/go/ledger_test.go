package client

import (
	"errors"
	"math"
	"math/rand"
	"testing"
)

func devices(budgetOf, totalOf *budget, slots int64) *Manifest {
	return &Manifest{collection: "c", cost: 3, budget: budgetOf, total: totalOf, slots: slots}
}

// Whatever the clock does, the reports that were granted while it showed a period cost no more than the budget.
func TestNoPeriodHasMoreThanTheBudget(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	granted, refused := 0, 0
	for round := 0; round < 300; round++ {
		every, amount := 1+random.Int63n(50), random.Int63n(20)
		m, kept := devices(&budget{amount, every}, nil, 1), emptyLedger()
		spent := map[int64]int64{}
		for now, step := random.Int63n(1000), 0; step < 200; step++ {
			now = max(0, now+random.Int63n(41)-15) // a clock that is often set back
			reports := 1 + random.Int63n(2)
			if kept.spend(m, now, reports) != nil {
				refused++
				continue
			}
			granted++
			spent[now/every] += reports * m.cost
		}
		for period, sum := range spent {
			if sum > amount {
				t.Fatalf("period %d of %d has %d of %d", period, every, sum, amount)
			}
		}
	}
	if granted < 1000 || refused < 1000 {
		t.Fatalf("%d were granted and %d refused: too few to tell", granted, refused)
	}
}

func TestAPeriodThatIsShortenedOpensNoSecondBudgetInIt(t *testing.T) {
	kept := emptyLedger()
	if err := kept.spend(devices(&budget{3, 1000}, nil, 1), 5100, 1); err != nil {
		t.Fatal(err)
	}
	for now := int64(5100); now < 6000; now += 10 {
		if kept.spend(devices(&budget{3, 10}, nil, 1), now, 1) == nil {
			t.Fatalf("granted at %d, before the period of the first report ends", now)
		}
	}
	if err := kept.spend(devices(&budget{3, 10}, nil, 1), 6000, 1); err != nil {
		t.Fatal(err)
	}
}

// The period after may begin in the middle of its own; a clock set back to before that is in the one that was spent.
func TestAPeriodBeginsWhereTheOneBeforeEnds(t *testing.T) {
	kept, later := emptyLedger(), devices(&budget{6, 700}, nil, 1)
	if err := kept.spend(devices(&budget{3, 1000}, nil, 1), 5100, 1); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		now     int64
		granted bool
	}{{6100, true}, {5999, false}, {5700, false}, {6000, true}} {
		if err := kept.spend(later, one.now, 1); (err == nil) != one.granted {
			t.Errorf("at %d: %v", one.now, err)
		}
	}
}

func TestAClockThatIsSetBackIsRefused(t *testing.T) {
	m, kept := devices(&budget{9, 1000}, nil, 1), emptyLedger()
	for _, one := range []struct {
		now     int64
		granted bool
	}{{5000, true}, {4999, false}, {0, false}, {-1, false}, {math.MaxInt64, false}, {5999, true}, {5000, true}, {5999, false}, {6000, true}} {
		err := kept.spend(m, one.now, 1)
		if (err == nil) != one.granted || (err != nil && !errors.Is(err, ErrBudget)) {
			t.Errorf("at %d: %v", one.now, err)
		}
	}
}

func TestIfOneAccountRefusesNeitherChanges(t *testing.T) {
	kept := emptyLedger()
	both := devices(&budget{100, 1000}, &budget{3, 1000}, 1)
	if err := kept.spend(both, 0, 1); err != nil {
		t.Fatal(err)
	}
	before, total := kept.Collections["c"], *kept.Total
	if kept.spend(both, 0, 1) == nil || kept.Collections["c"] != before || *kept.Total != total {
		t.Errorf("%+v after %+v", kept, before)
	}
	swapped := devices(&budget{3, 1000}, &budget{100, 1000}, 1)
	if kept.spend(swapped, 0, 1) == nil || kept.Collections["c"] != before || *kept.Total != total {
		t.Errorf("%+v after %+v", kept, before)
	}
}

func TestManyReportsAtOnceDoNotOverflow(t *testing.T) {
	m, kept := devices(&budget{mostSpent, 1000}, nil, 1), emptyLedger()
	m.cost = mostSpent
	for _, reports := range []int64{2, 18447, 1 << 60, math.MaxInt64} {
		if kept.spend(m, 0, reports) == nil {
			t.Errorf("%d reports were granted", reports)
		}
	}
	if err := kept.spend(m, 0, 1); err != nil {
		t.Error(err)
	}
}

func TestASlotIsDrawnOnceAndAgainOnlyForAnotherNumberOfSlots(t *testing.T) {
	m, kept := devices(&budget{3, 1000}, nil, 8), emptyLedger()
	draws := &drawer{next: func(limit int64) (int64, error) { return limit - 1, nil }}
	if !kept.drawSlot(m, draws) || kept.drawSlot(m, draws) || kept.Slots["c"] != (slot{7, 8}) {
		t.Errorf("%+v", kept.Slots)
	}
	if kept.spend(m, 874, 1) == nil || kept.spend(m, 875, 1) != nil {
		t.Error("the last of eight slots is from 875 to 999")
	}
	m.slots = 4
	if !kept.drawSlot(m, draws) || kept.Slots["c"] != (slot{3, 4}) {
		t.Errorf("%+v", kept.Slots)
	}
}
