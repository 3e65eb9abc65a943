// Command fiber-v2 is a small shop behind the idempotency middleware of Fiber v2 with its default configuration.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/idempotency"
	"github.com/gofiber/fiber/v2/middleware/recover"
)

type order struct {
	Account string `json:"account"`
	Item    string `json:"item"`
	Amount  int    `json:"amount"`
}

// A shop makes one effect for each order that it accepts.
type shop struct {
	mu        sync.Mutex
	orders    int
	byAccount map[string]int
}

// sell makes the order: this is the effect that must happen once.
func (s *shop) sell(o order) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders++
	s.byAccount[o.Account]++
	return fmt.Sprintf("o-%d", s.orders)
}

func (s *shop) effects(c *fiber.Ctx) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.JSON(fiber.Map{"count": s.byAccount[c.Query("account")]})
}

func (s *shop) order(c *fiber.Ctx) error {
	var o order
	if err := c.BodyParser(&o); err != nil || o.Amount < 1 {
		return fiber.NewError(fiber.StatusBadRequest, "no order")
	}
	o.Account, o.Item = strings.Clone(o.Account), strings.Clone(o.Item)
	switch c.Get("X-Fault") {
	case "500":
		return fiber.NewError(fiber.StatusInternalServerError, "the bank is down")
	case "429":
		c.Set(fiber.HeaderRetryAfter, "0")
		return fiber.NewError(fiber.StatusTooManyRequests, "too many orders")
	case "crash":
		panic("a failure that nobody foresaw")
	}
	slow, _ := strconv.Atoi(c.Get("X-Slow")) // no number is no wait
	time.Sleep(time.Duration(slow) * time.Millisecond)
	id := s.sell(o)
	switch c.Path() {
	case "/empty":
		return c.SendStatus(fiber.StatusNoContent)
	case "/large":
		return c.SendString(strings.Repeat("0123456789abcdef", 1<<16))
	}
	c.Set(fiber.HeaderLocation, c.Path()+"/"+id)
	c.Set(fiber.HeaderETag, strconv.Quote(id))
	return c.Status(fiber.StatusCreated).JSON(fiber.Map{"id": id, "item": o.Item, "amount": o.Amount})
}

func main() {
	s := &shop{byAccount: map[string]int{}}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(recover.New())
	app.Post("/short", idempotency.New(idempotency.Config{Lifetime: 2 * time.Second}), s.order)
	app.Use(idempotency.New())
	for _, path := range []string{"/orders", "/refunds", "/empty", "/large"} {
		app.Post(path, s.order)
	}
	app.Patch("/orders", s.order)
	app.Get("/orders", s.effects)
	app.Get("/effects", s.effects)
	log.Fatal(app.Listen("127.0.0.1:" + os.Getenv("PORT")))
}
