package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/store"
)

// Names of the contestants that make an effect.
const (
	byEffect      = "the effect alone"
	byTwoSteps    = "in two steps"
	byTransaction = "in one transaction"
)

// effectScenario measures the cost of making an effect once: a row in a table, alone and with a record.
func effectScenario() contest.Scenario {
	a := &postgresArena{conns: 32}
	return contest.Scenario{
		Name:  "postgres-effect",
		Title: "a row inserted in Postgres, with and without a record of it, 64 callers on a pool of 32",
		Ready: func() error {
			if err := a.open(); err != nil {
				return err
			}
			ctx, cancel := preparing()
			defer cancel()
			_, err := a.pool.Exec(ctx,
				"CREATE TABLE "+a.schema+".ledger (id bigserial PRIMARY KEY, key text NOT NULL, amount int NOT NULL)")
			ops := []func(context.Context) error{a.effectAlone, a.effectInTwoSteps, a.effectInOneTransaction}
			for _, op := range ops {
				if err == nil {
					err = a.warm(ctx, op)
				}
			}
			return err
		},
		Done: a.close, Reference: byEffect, Callers: engineCallers,
		Contestants: []contest.Contestant{
			{Name: byEffect, Open: calls(a.effectAlone)},
			{Name: byTwoSteps, Open: calls(a.effectInTwoSteps)},
			{Name: byTransaction, Open: calls(a.effectInOneTransaction)},
		},
	}
}

func (a *postgresArena) insert() string {
	return "INSERT INTO " + a.schema + ".ledger (key, amount) VALUES ($1, 1000)"
}

func (a *postgresArena) effectAlone(ctx context.Context) error {
	_, err := a.pool.Exec(ctx, a.insert(), timeKey(a.made.Add(1)))
	return err
}

func (a *postgresArena) effectInTwoSteps(ctx context.Context) error {
	key := timeKey(a.made.Add(1))
	g, err := a.store.Reserve(ctx, engineClaim(key))
	if err != nil {
		return err
	}
	if _, err := a.pool.Exec(ctx, a.insert(), key); err != nil {
		return err
	}
	return a.store.Complete(ctx, g.Lease, store.Outcome{Result: result})
}

func (a *postgresArena) effectInOneTransaction(ctx context.Context) error {
	key := timeKey(a.made.Add(1))
	c := store.Claim{ID: engineClaim(key).ID, Fingerprint: fingerprint, Retention: 24 * time.Hour}
	_, _, err := store.Once(ctx, a.store, c, func(ctx context.Context, tx pgx.Tx) (store.Outcome, error) {
		_, err := tx.Exec(ctx, a.insert(), key)
		return store.Outcome{Result: result}, err
	})
	return err
}
