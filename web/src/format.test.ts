import { describe, expect, it } from "vitest";
import { countdown, money } from "./format";

const digits = (text: string) => text.replace(/[^\d.,]/g, "").replace(",", ".");

describe("money", () => {
  it("is in the currency's own minor unit", () => {
    expect(digits(money(9000, "EUR"))).toBe("90.00");
    expect(digits(money(1250, "JPY").replace(/,/g, ""))).toBe("1250");
    expect(digits(money(1500, "KWD"))).toBe("1.500");
    expect(digits(money(5, "USD"))).toBe("0.05");
  });

  it("is so by ISO 4217, whatever the browser thinks of its coins", () => {
    for (const currency of ["HUF", "COP", "IDR", "PKR"]) {
      expect(digits(money(9000, currency))).toBe("90.00");
    }
    expect(digits(money(1500, "IQD"))).toBe("1.500");
    expect(digits(money(150, "ISK"))).toBe("150");
  });
});

describe("countdown", () => {
  it("has minutes and seconds, and ends at zero", () => {
    expect(countdown(480)).toBe("8:00");
    expect(countdown(59.2)).toBe("1:00");
    expect(countdown(9)).toBe("0:09");
    expect(countdown(-3)).toBe("0:00");
  });
});
