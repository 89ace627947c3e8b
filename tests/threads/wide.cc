// SPDX-License-Identifier: BSD-2-Clause
// wide.cc - a plain C++ program: the standard streams of wide characters are the same for all
// threads.
#include <iomanip>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>

int main()
{
	std::wstring word, line;

	dup2(STDOUT_FILENO, STDERR_FILENO);
	std::wcout << std::hex << std::setfill(L'.') << L"main " << std::setw(6) << 30 << std::endl;
	std::wcerr << std::setprecision(2);
	for (int i = 0; i < 6; i++)
		std::thread([&] {
			std::wcin >> word;
			std::getline(std::wcin, line);
			std::wcout << i << L": " << std::setw(6) << 30 + i << L' ' << word << L" [" << line << L"]\n";
			std::wcerr << 1.0 / 3 << L' ' << std::setprecision(3 + i);
			std::wclog << L"log " << i << (i % 2 ? std::hex : std::oct) << L' ' << 20 << std::endl;
			if (i == 3)
				std::wcout << std::dec << std::setfill(L'_');
		}).join();
	std::wcout << L"main " << std::setw(6) << 30 << std::endl;
}
