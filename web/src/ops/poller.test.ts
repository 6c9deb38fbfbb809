import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Problem } from "../api/http";
import { Poller, type Standing } from "./poller";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const away = (): Promise<void> => Promise.reject(new Problem(0, "unreachable", "away"));

function polled(ask: (signal: AbortSignal) => Promise<void>) {
  const standing: Standing = { goodAt: null, trouble: null };
  const asked = vi.fn(ask);
  const poller = new Poller(asked, 1000, (news) => Object.assign(standing, news));
  poller.start();
  return { poller, asked, standing };
}

describe("Poller", () => {
  it("asks at once, then every so often", async () => {
    const { asked, standing } = polled(async () => undefined);
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toHaveBeenCalledTimes(1);
    expect(standing.goodAt).toBe(Date.now());
    await vi.advanceTimersByTimeAsync(3000);
    expect(asked).toHaveBeenCalledTimes(4);
  });

  it("has one ask under way at a time, however long it takes", async () => {
    let done = () => {};
    const { asked } = polled(() => new Promise<void>((resolve) => (done = resolve)));
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked).toHaveBeenCalledTimes(1);
    done();
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toHaveBeenCalledTimes(2);
  });

  it("asks less often while nobody answers, and recovers by itself", async () => {
    let answer = away;
    const { asked, standing } = polled(() => answer());
    await vi.advanceTimersByTimeAsync(0);
    expect(standing.trouble?.reason).toBe("unreachable");
    await vi.advanceTimersByTimeAsync(60_000);
    const tries = asked.mock.calls.length;
    expect(tries).toBeGreaterThan(5);
    expect(tries).toBeLessThan(12);
    answer = async () => undefined;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(standing.trouble).toBeNull();
    const before = asked.mock.calls.length;
    await vi.advanceTimersByTimeAsync(3000);
    expect(asked.mock.calls.length - before).toBe(3);
  });

  it("remembers when it last went well", async () => {
    let answer: () => Promise<void> = async () => undefined;
    const { standing } = polled(() => answer());
    await vi.advanceTimersByTimeAsync(0);
    const then = Date.now();
    answer = away;
    await vi.advanceTimersByTimeAsync(5000);
    expect(standing).toMatchObject({ goodAt: then, trouble: { reason: "unreachable" } });
  });

  it("asks nothing while it is stopped, and at once when it is started again", async () => {
    const signals: AbortSignal[] = [];
    const { poller, asked, standing } = polled(
      (signal) =>
        new Promise((_, reject) => {
          signals.push(signal);
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
    );
    await vi.advanceTimersByTimeAsync(0);
    poller.stop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(signals[0]!.aborted).toBe(true);
    expect(asked).toHaveBeenCalledTimes(1);
    expect(standing.trouble).toBeNull();
    poller.start();
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toHaveBeenCalledTimes(2);
  });

  it("asks again after what is under way when something was changed meanwhile", async () => {
    let done = () => {};
    const { poller, asked } = polled(() => new Promise<void>((resolve) => (done = resolve)));
    await vi.advanceTimersByTimeAsync(0);
    poller.now();
    poller.now();
    expect(asked).toHaveBeenCalledTimes(1);
    done();
    await vi.advanceTimersByTimeAsync(1);
    expect(asked).toHaveBeenCalledTimes(2);
  });
});
